package workload

import (
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Limits of the work of Fill. A short set can expand to more than fits into memory: by long chains of parents, by many
// slots that are compared with many fillers, or by long texts in many slots.
const (
	// maxWork is the most work of one call: some seconds, and some hundred MiB. The unit is one comparison. 9,000
	// slots of 40 values, each compared with 500 fillers, take half of it.
	maxWork    = 100_000_000
	copying    = 40 // work of copying one value
	explaining = 20 // work of one message why a filler does not apply
	// bytesOfWork is the number of bytes of the result that count as one unit: they are written into documents.
	bytesOfWork = 2
)

// spend adds n units of work. It returns false if the work exceeds the limit; then it adds a problem, once.
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

// full reports whether Fill must stop: the work or the number of problems has reached its limit.
func (f *filling) full() bool { return f.work > f.most || len(f.problems) >= strictjson.MaxProblems }
