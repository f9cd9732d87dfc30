package cli

import (
	"os"
	"os/user"

	"golang.org/x/sys/unix"
)

// Terminal says whether f is a terminal, and how many columns it has.
func Terminal(f *os.File) (yes bool, columns int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return false, 0
	}
	return true, int(size.Col)
}

// User is who is at the keyboard: behind sudo, the one who called it.
func User(env func(string) (string, bool)) string {
	if name, ok := env("SUDO_USER"); ok && name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
