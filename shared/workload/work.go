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
	// pollEvery is the work between two questions whether to stop, some milliseconds.
	pollEvery = 100_000
)

// FillUntil is Fill, and gives up when stop returns an error. stop is called every few milliseconds; nil
// never stops it.
func FillUntil(set *Set, stop func() error) (*Filled, Problems) {
	f := newFilling(set)
	f.stop = stop
	return f.all(), f.problems
}

// spend adds n units of work. It returns false if the work exceeds the limit; then it adds a problem, once.
func (f *filling) spend(n int) bool {
	if f.work > f.most {
		return false
	}
	f.work += n
	if f.stopped() {
		return false
	}
	if f.work <= f.most {
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

// stopped reports whether the caller wants Fill to stop. If so, no work is left, and that is the only problem.
func (f *filling) stopped() bool {
	if f.stop == nil || f.work < f.poll {
		return false
	}
	f.poll = f.work + pollEvery
	err := f.stop()
	if err == nil {
		return false
	}
	f.work = f.most + 1
	f.problems, f.files = Problems{wire.New(wire.CodeUnavailable, "", "given up: "+err.Error())}, []string{""}
	return true
}

// full reports whether Fill must stop: the work or the number of problems has reached its limit.
func (f *filling) full() bool { return f.work > f.most || len(f.problems) >= strictjson.MaxProblems }
