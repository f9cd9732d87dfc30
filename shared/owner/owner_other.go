//go:build !linux

package owner

import "os"

func become(string, []string) error { return nil }

func open(string) (*os.File, bool) { return nil, false }

func ownerOf(string) (uint32, bool) { return 0, false }
