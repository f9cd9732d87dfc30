package layers

import (
	"io/fs"
	"syscall"
)

// changed is when a file was changed last, in any way; nobody but the kernel can set it.
func changed(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return info.ModTime().UnixNano()
}
