package document

import (
	"errors"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// isFile reports whether an argument of diff is a file and not a version.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	_, err := unitconfig.Compare(arg, arg)
	return err != nil
}

// neither says more about an argument that is no version and no file that exists.
func neither(arg string, err error) error {
	f, ok := errors.AsType[*command.Failure](err)
	if ok && f.Err.Code == wire.CodeNotFound && f.From.File == arg && isFile(arg) {
		return command.Usage("%.200q is neither a version such as 2.0.0 nor a file", arg)
	}
	return err
}
