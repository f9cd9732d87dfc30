package proc

import "os"

// NotAKeeper ends a test program that was started as a keeper, by an agent that runs inside of a test program: that
// would run the tests, whose agents would start the next. It is called first in a package's TestMain.
func NotAKeeper() {
	if len(os.Args) > 1 && os.Args[1] == "keep" {
		os.Exit(2)
	}
}
