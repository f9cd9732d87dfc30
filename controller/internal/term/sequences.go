//go:build !windows

package term

import "os"

func sequences(*os.File) bool { return true }
