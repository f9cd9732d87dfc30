package op

import (
	"strconv"
	"strings"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// All nodes at once.
var (
	ShowFleet = define(Op[None, view.Fleet]{
		Name: "fleet", Route: "GET /v1/fleet", Role: View,
		About: "Counts the nodes: how they stand, their types, what they run; and says what should be looked at.",
	})
	Live = define(Op[LiveIn, view.Live]{
		Name: "live", Route: "GET /v1/live", Role: View, Form: Stream,
		About: "Follows the unit. First come the fleet and a row for each node, or with after for those that have " +
			"changed; then what changes, and what happens, in words. A line with at and complete ends each batch.",
	})
)

// LiveIn says from where on the unit is followed.
type LiveIn struct {
	After string `query:"after" json:"-"` // EPOCH-REV, the newest at of a stream before: what has changed since then
	// all entries of the journal; otherwise those that are no mere information, or that somebody caused
	Events bool `query:"events" json:"-"`
}

// Cursor returns the numbers of After; false: it has none.
func (in *LiveIn) Cursor() (epoch, rev uint64, ok bool) {
	e, r, _ := strings.Cut(in.After, "-")
	epoch, err := strconv.ParseUint(e, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	rev, err = strconv.ParseUint(r, 10, 64)
	return epoch, rev, err == nil
}

// Check judges the cursor.
func (in *LiveIn) Check() *wire.Error {
	if _, _, ok := in.Cursor(); !ok && in.After != "" {
		return invalid("the parameter after is EPOCH-REV, as at of a line of the stream, such as 1794996000-4711")
	}
	return nil
}
