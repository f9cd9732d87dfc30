package term

import (
	"os"

	"golang.org/x/sys/windows"
)

// sequences lets the console obey control sequences; one from before Windows 10 does not. Of an input there is nothing
// to ask.
func sequences(f *os.File) bool {
	if f == os.Stdin {
		return true
	}
	var mode uint32
	console := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
