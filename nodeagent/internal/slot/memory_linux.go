package slot

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memory returns a file in memory that may be sealed and executed, nil if there is no such.
func memory() *os.File {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(binaryFile, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 everything may be executed
		fd, err = unix.MemfdCreate(binaryFile, flags)
	}
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), binaryFile)
}

// freeze has nobody alter such a file any more.
func freeze(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return os.NewSyscallError("seal", err)
}
