package cli

import (
	"os"
	"reflect"
	"syscall"
	"testing"
)

const smapsText = `00400000-0086e000 r-xp 00000000 08:01 77 /usr/bin/tandem-node
Rss:                4408 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
0086e000-00ca7000 r--p 0046e000 08:01 77 /usr/bin/tandem-node
Private_Dirty:         8 kB
Anonymous:             8 kB
VmFlags: rd mr mw me
00ca7000-00d03000 rw-p 008a7000 08:01 77 /usr/bin/tandem-node
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd wr mr mw me
00d03000-02d47000 r--p 00000000 00:00 0
Anonymous:             0 kB
VmFlags: rd mr
02d48000-02d49000 r--s 00000000 08:01 78 /var/lib/state.db
Anonymous:             0 kB
VmFlags: rd sh mr
02e00000-02e10000 r--p 00000000 08:01 79 /usr/lib/x
Anonymous:             0 kB
VmFlags: rd mr
7ffd7c9f5000-7ffd7c9f7000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
VmFlags: rd ex
`

// Only what is as in its file is let go: not what was relocated, written, shared, or is no file.
func TestBinaryMappings(t *testing.T) {
	want := []mapping{{0x400000, 0x86e000}, {0x2e00000, 0x2e10000}}
	if got := binaryMappings([]byte(smapsText)); !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// A program whose pages were let go goes on.
func TestUnmap(t *testing.T) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	list := binaryMappings(smaps)
	if len(list) == 0 {
		t.Fatal("this test program has no mapping that can be let go")
	}
	for range 20 {
		for _, m := range list {
			if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start,
				syscall.MADV_DONTNEED); errno != 0 {
				t.Fatalf("%x: %v", m, errno)
			}
		}
		if got := binaryMappings([]byte(smapsText)); len(got) != 2 {
			t.Fatalf("%x", got)
		}
	}
	unmapUnused(agentUnmaps)()
}
