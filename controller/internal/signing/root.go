package signing

import (
	"errors"
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// RootOrder brings lists that root keys have signed, the oldest first: the last one is to count, those before it lead
// from root key to root key.
type RootOrder struct {
	Unit  string
	Lists []rootlist.Signed
	Now   rootlist.List // CAs and keys as they are now
	Who   string
}

// maxAhead is how far the number of a list, a time, may be ahead of the clock: numbers only rise.
const maxAhead = 24 * time.Hour

// ImportRoot returns what is kept from now on, or a *wire.Error that says why the lists are refused.
func ImportRoot(now time.Time, have []rootlist.Signed, o RootOrder) (record.RootData, error) {
	known := rootlist.Known{}
	if n := len(have); n > 0 {
		l, err := rootlist.Parse(have[n-1].List)
		if err != nil {
			return record.RootData{}, refusedList(err)
		}
		known = rootlist.Known{Roots: l.Roots, Number: l.Number}
	} else if len(o.Lists) > 0 { // the first one is what begins it
		l, err := rootlist.Parse(o.Lists[0].List)
		if err != nil {
			return record.RootData{}, refusedList(err)
		}
		known.Roots = l.Roots
	}
	data := record.RootData{Lists: have}
	var newest *rootlist.List
	for _, s := range o.Lists {
		next, l, err := known.Follow(o.Unit, []rootlist.Signed{s})
		if err != nil {
			return record.RootData{}, refusedList(err)
		}
		known, newest, data.By = next, l, string(s.Signer())
		data.Lists = rootlist.Append(data.Lists, s)
	}
	switch {
	case newest == nil:
		return record.RootData{}, wire.New(wire.CodeMissing, "/lists", "no list of CAs")
	case newest.Time().After(now.Add(maxAhead)):
		return record.RootData{}, wire.New(wire.CodeBadValue, "/lists", "the list of CAs is from a time to come, "+
			newest.Time().Format(time.RFC3339)+": set the clock, and export it anew")
	case Behind(newest, &o.Now):
		return record.RootData{}, wrongState("CAs or signing keys have changed since this list was exported; a node " +
			"that follows it would not get back: tandem ca export, sign that, and import it")
	}
	data.Number = newest.Number
	return data, nil
}

// Behind reports whether a unit has other CAs or signing keys than a list says.
func Behind(l, now *rootlist.List) bool {
	ids := func(keys []wire.Key) (all []string) {
		for _, k := range keys {
			all = append(all, k.ID)
		}
		return all
	}
	return l.Signs != now.Signs || !slices.EqualFunc(l.CAs, now.CAs, slices.Equal) ||
		!slices.Equal(ids(l.UnitKeys), ids(now.UnitKeys))
}

func refusedList(err error) *wire.Error {
	code := wire.CodeBadValue
	for _, c := range []struct {
		is   error
		code wire.Code
	}{
		{publisher.ErrUnknown, wire.CodeUnknownKey}, {publisher.ErrForged, wire.CodeBadSignature},
		{publisher.ErrOther, wire.CodeBadSignature}, {rootlist.ErrComment, wire.CodeBadSignature},
		{rootlist.ErrUnnamed, wire.CodeBadSignature}, {rootlist.ErrUnit, wire.CodeWrongTarget},
		{rootlist.ErrOld, wire.CodeStale},
	} {
		if errors.Is(err, c.is) {
			code = c.code
		}
	}
	return wire.New(code, "/lists", "the list of CAs: "+err.Error())
}
