package term

import (
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// waitFor reports whether a console has something to read within a time.
func waitFor(f *os.File, most time.Duration) (bool, error) {
	event, err := windows.WaitForSingleObject(windows.Handle(f.Fd()), uint32(most/time.Millisecond))
	return err == nil && event == windows.WAIT_OBJECT_0, err
}
