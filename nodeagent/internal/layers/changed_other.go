//go:build !linux

package layers

import "io/fs"

// changed is when a file was written last.
func changed(info fs.FileInfo) int64 { return info.ModTime().UnixNano() }
