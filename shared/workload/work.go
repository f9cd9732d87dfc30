package workload

import (
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// What Fill may take. Sets can be written so that a short text comes to more than any machine holds:
// fillers that inherit from one another in a long row, many that have to be held against many, texts made of texts.
const (
	// maxWork is some seconds, and some hundred MiB. The unit is a comparison; 9,000 slots of 40 values, each held
	// against 500 fillers, take the half of it.
	maxWork = 100_000_000
	// copying is the work of a value that is copied, explaining that of saying why a filler does not apply.
	copying, explaining = 40, 20
	// bytesOfWork are the bytes that come out, and are written into documents, for one unit.
	bytesOfWork = 2
)

// spend counts work; false: there was too much of it, and Fill ends with a problem that says so.
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

// full reports whether nothing is to be gained by going on: the work or the room for problems is used up.
func (f *filling) full() bool { return f.work > f.most || len(f.problems) >= strictjson.MaxProblems }
