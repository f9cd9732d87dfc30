package durable

import (
	"os"

	"golang.org/x/sys/windows"
)

// rename returns after the disk has the new name.
func rename(from, to string) error {
	failed := func(err error) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: err} }
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return failed(err)
	}
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return failed(err)
	}
	const flags = windows.MOVEFILE_REPLACE_EXISTING | windows.MOVEFILE_WRITE_THROUGH
	if err := windows.MoveFileEx(old, name, flags); err != nil {
		return failed(err)
	}
	return nil
}

// SettleDir has nothing to do: Windows does not flush directories, and rename has waited.
func SettleDir(string) error { return nil }
