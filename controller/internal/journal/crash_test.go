package journal

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// Every write × {not persisted, persisted but an error returned}: the journal stops, and after
// reopening it is as if the write had not been, or had been, whole; nothing acknowledged is lost.
func TestFailedCommits(t *testing.T) {
	boom := errors.New("boom")
	dropped := []uint64{2, 3, 7}
	writes := map[string]func(j *Journal) error{
		"append": func(j *Journal) error {
			fresh := [][]byte{[]byte("new")}
			_, err := j.Append(
				&Batch{Records: recs(10, 5), Bodies: fresh, Checkpoint: &Checkpoint{Seq: 12, Chunks: fresh}})
			return err
		},
		"bump": func(j *Journal) error { _, err := j.BumpEpoch(0); return err },
		"drop": func(j *Journal) error {
			_, err := j.Drop(j.testContext(), dropped)
			return err
		},
		"bodies": func(j *Journal) error {
			_, err := j.DropBodies(j.testContext(), func(Hash) bool { return false })
			return err
		},
		"backup": func(j *Journal) error { return j.Backup(io.Discard) },
	}
	for name, write := range writes {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s persisted=%v", name, persisted), func(t *testing.T) {
				armed := false
				hook := func() error {
					if armed {
						return boom
					}
					return nil
				}
				opts := Options{}
				if persisted {
					opts.Faults.AfterCommit = hook
				} else {
					opts.Faults.BeforeCommit = hook
				}
				j := mustOpen(t, tempPath(t), opts)
				first := [][]byte{[]byte("old")}
				mustAppend(t, j,
					Batch{Records: recs(0, 10), Bodies: first, Checkpoint: &Checkpoint{Seq: 10, Chunks: first}})
				epoch := j.Epoch()
				armed = true
				for range 2 { // and again: it stays broken
					err := write(j)
					if !errors.Is(err, ErrBroken) || !errors.Is(err, boom) ||
						!errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
						t.Fatal(err)
					}
				}
				armed = false
				if _, err := j.Append(&Batch{Records: recs(0, 1)}); !errors.Is(err, ErrBroken) || j.Err() == nil {
					t.Fatal("a broken journal took a record", err)
				}
				if j.Last() != 10 || j.Epoch() != epoch {
					t.Errorf("a failed write counts: last %d", j.Last())
				}
				j = reopen(t, j, Options{})
				if p := mustVerify(t, j); !p.OK() {
					t.Fatalf("%+v", p)
				}
				want := numbered(1, recs(0, 10))
				if name == "append" && persisted {
					want = append(want, numbered(11, recs(10, 5))...)
				}
				next := uint64(len(want) + 1)
				if name == "drop" && persisted {
					want = slices.DeleteFunc(want, func(r Record) bool { return slices.Contains(dropped, r.Seq) })
				}
				if got := all(t, j); show(got) != show(want) {
					t.Error(show(got))
				}
				_, old, err := j.Body(sha256.Sum256([]byte("old")))
				_, fresh, err2 := j.Body(sha256.Sum256([]byte("new")))
				if err != nil || err2 != nil || old == (name == "bodies" && persisted) ||
					fresh != (name == "append" && persisted) {
					t.Errorf("bodies: old %v new %v %v %v", old, fresh, err, err2)
				}
				c, ok, err := j.Checkpoint()
				if err != nil || !ok || (c.Seq == 12) != (name == "append" && persisted) {
					t.Errorf("checkpoint %+v %v", c, err)
				}
				// A crash inside Backup, or a bump whose answer was lost, may only raise the epoch.
				if raised := j.Epoch() > epoch; raised != (persisted && (name == "bump" || name == "backup")) ||
					j.Epoch() < epoch {
					t.Errorf("epoch %d, was %d", j.Epoch(), epoch)
				}
				mustAppend(t, j, Batch{Records: recs(0, 1), First: next})
			})
		}
	}
}

// child is this test binary as another process: it appends batches and says on standard output
// what is durable, until it is killed; or it only holds the lock.
func child(path string) int {
	j, err := Open(path, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("JOURNAL_TEST_HOLD") != "" {
		fmt.Println()
		_, err := io.Copy(io.Discard, os.Stdin)
		if err = errors.Join(err, j.Close()); err != nil {
			return 1
		}
		return 0
	}
	for i := int(j.Last()); ; i++ {
		n := 1 + i%40
		b := Batch{Records: recs(i, n), Bodies: [][]byte{fmt.Appendf(nil, "body %d", i)}}
		if i%10 == 0 {
			b.Checkpoint = &Checkpoint{Seq: j.Last(), Chunks: [][]byte{[]byte("state")}}
		}
		if _, err := j.Append(&b); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(j.Last(), i)
		if i%50 == 49 {
			if _, err := dropIf(j.testContext(), j, notIssued); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
}

// A process killed at any moment loses nothing that it acknowledged.
func TestKilled(t *testing.T) {
	path := tempPath(t)
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "JOURNAL_TEST_CHILD="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var last uint64
		var lastBody string
		lines := 0
		for s := bufio.NewScanner(out); s.Scan(); {
			seq, body, ok := strings.Cut(s.Text(), " ")
			n, err := strconv.ParseUint(seq, 10, 64)
			if err != nil || !ok {
				break // a line cut off by the kill
			}
			last, lastBody = n, body
			if lines++; lines == 20+60*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || lines == 0 {
			t.Fatalf("the child ended by itself after %d lines", lines)
		}
		j := mustOpen(t, path, Options{})
		if j.Last() < last {
			t.Errorf("%d was acknowledged, but the newest record is %d", last, j.Last())
		}
		if _, ok, err := j.Body(sha256.Sum256([]byte("body " + lastBody))); !ok || err != nil {
			t.Errorf("the body %s was acknowledged and is gone (%v)", lastBody, err)
		}
		if p := mustVerify(t, j); !p.OK() {
			t.Errorf("%+v", p)
		}
		mustClose(t, j)
	}
}
