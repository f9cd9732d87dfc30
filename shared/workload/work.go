package workload

import (
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Bounds of the work of Fill. A short set can expand to more than any machine can hold: by long chains of
// parents, many slots compared with many fillers, templates in templates.
const (
	// maxWork bounds a call to some seconds and some hundred MiB. The unit is one comparison. 9,000 slots of 40
	// values, each compared with 500 fillers, take half of it.
	maxWork = 100_000_000
	// copying is the work of copying a value, explaining that of a message why a filler does not apply.
	copying, explaining = 40, 20
	// bytesOfWork is how many bytes of the result, which are written into documents, count as one unit of work.
	bytesOfWork = 2
)

// spend adds work; false: it exceeds the bound, and Fill ends with a problem that says so.
func (f *filling) spend(n int) bool {
	if f.work > f.most {
		return false
	}
	if f.work += n; f.work <= f.most {
		return true
	}
	e := wire.New(wire.CodeTooLarge, "", "this set takes too much time or memory to work out: use fewer slots or "+
		"fillers at a time, shorter filters and texts, or fewer fillers that inherit from each other")
	if len(f.problems) >= strictjson.MaxProblems {
		f.problems, f.files = f.problems[:strictjson.MaxProblems-1], f.files[:strictjson.MaxProblems-1]
	}
	f.problems, f.files = append(f.problems, e), append(f.files, "")
	return false
}

// full reports whether Fill must stop: the work or the number of problems has reached its bound.
func (f *filling) full() bool { return f.work > f.most || len(f.problems) >= strictjson.MaxProblems }
