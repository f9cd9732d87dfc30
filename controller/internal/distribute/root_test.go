package distribute

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/rootlist"
	"tandem.internal/shared/wire"
)

// signedList is a list of the unit's CAs as they are now, signed with a root key.
func (u *certified) signedList(by byte, roots ...byte) op.SignedList {
	u.Helper()
	time.Sleep(time.Second) // the number is the time, in seconds of the bubble
	var in op.ExportCAs
	for _, r := range roots {
		in.Roots = append(in.Roots, publishertest.New(r).Public())
	}
	draft, err := u.core.ExportCAs(u.Context(), in)
	if err != nil {
		u.Fatal(err)
	}
	l, err := rootlist.Parse([]byte(draft.List))
	if err != nil {
		u.Fatal(err)
	}
	return op.SignedList{List: draft.List, Signature: publishertest.New(by).SignAs([]byte(draft.List), l.Comment())}
}

func (u *certified) imports(s op.SignedList) error {
	_, err := u.core.ImportCAs(as(u.Context(), "ann"), op.ImportCAs{Lists: []op.SignedList{s}})
	return err
}

// answered is the chain that the door answers, which the journal has as well.
func (u *certified) answered(when string) (lists []rootlist.Signed) {
	u.Helper()
	if chain := u.core.DoorRoot(); chain != nil {
		c, err := rootlist.DecodeChain(chain)
		if err != nil {
			u.Fatalf("%s: %v", when, err)
		}
		lists = c.Lists
	}
	var kept []rootlist.Signed
	if err := u.core.look(u.Context(), func(f *fleet.Fleet) { kept = f.Root().Lists }); err != nil {
		u.Fatalf("%s: %v", when, err)
	}
	same := func(a, b rootlist.Signed) bool { return slices.Equal(a.List, b.List) && a.Signature == b.Signature }
	if !slices.EqualFunc(lists, kept, same) {
		u.Errorf("%s: %d lists are answered, the journal has %d", when, len(lists), len(kept))
	}
	return lists
}

// An import × each way in which a disk may fail it × the way back: the door answers what the journal has, the list of
// before or the new one, and it can be imported in the end.
func TestRootListOnABadDisk(t *testing.T) {
	for name, set := range map[string]func(u *certified){
		"nothing":                                func(*certified) {},
		"the record is not on the disk":          func(u *certified) { u.disk.fail(1, 0) },
		"the record is on the disk all the same": func(u *certified) { u.disk.fail(0, 1) },
	} {
		for _, back := range []string{"recover", "restart"} {
			t.Run(fmt.Sprintf("%s/%s", name, back), func(t *testing.T) {
				withCA(t, func(t *testing.T, u *certified) {
					if err := u.imports(u.signedList(1, 1)); err != nil || len(u.answered("the first")) != 1 {
						t.Fatal(err)
					}
					next := u.signedList(1, 1, 2)
					set(u)
					err := u.imports(next)
					if name == "nothing" && err != nil {
						t.Error(err)
					}
					if back == "restart" {
						if err := u.stop(); err != nil && !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
							t.Error(err)
						}
						u.start()
					} else {
						u.recover()
					}
					last := func(lists []rootlist.Signed) string { return string(lists[len(lists)-1].List) }
					if got := last(u.answered("afterwards")); err == nil && got != next.List {
						t.Error("an import that has succeeded is not kept")
					} else if got != next.List {
						if err := u.imports(next); err != nil || last(u.answered("the second time")) != next.List {
							t.Error(err)
						}
					}
					if err := u.imports(next); !errors.Is(err, &wire.Error{Code: wire.CodeStale}) {
						t.Errorf("twice: %v", err)
					}
					if err := u.stop(); err != nil {
						t.Fatal(err)
					}
					u.start()
					if got := last(u.answered("in the end")); got != next.List {
						t.Errorf("%s", got)
					}
					if err := u.core.Audit(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A list is for the CAs and keys as they are: after a step of a rotation it is behind, and is not imported any more.
func TestRootListIsBehind(t *testing.T) {
	withCA(t, func(t *testing.T, u *certified) {
		early := u.signedList(1, 1)
		if err := u.imports(early); err != nil {
			t.Fatal(err)
		}
		behind := func() bool {
			t.Helper()
			v, err := u.core.ShowCAs(t.Context())
			if err != nil || v.Root == nil {
				t.Fatal(v, err)
			}
			return v.Root.Behind
		}
		if behind() {
			t.Error("it is behind at once")
		}
		stale := u.signedList(1)
		for i := range caSteps {
			first := u.ca.Listed().All[0].ID()
			if _, err := caSteps[i].do(u, first); err != nil {
				t.Fatal(err)
			}
			if !behind() {
				t.Errorf("%s: it is not behind", caSteps[i].name)
			}
			if err := u.imports(stale); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
				t.Errorf("%s: %v", caSteps[i].name, err)
			}
			if err := u.imports(u.signedList(1)); err != nil || behind() {
				t.Errorf("%s: %v", caSteps[i].name, err)
			}
			stale = u.signedList(1)
		}
	})
}
