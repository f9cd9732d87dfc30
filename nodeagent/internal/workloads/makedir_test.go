package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Slots that come at the same time make the directories that are above all of them.
func TestDirectoriesAtOnce(t *testing.T) {
	for range 20 {
		top := filepath.Join(tempDir(t), "workloads", "slots")
		var all sync.WaitGroup
		begin := make(chan struct{})
		for i := range 16 {
			dir := filepath.Join(top, fmt.Sprint("s", i), "c1")
			all.Go(func() {
				<-begin
				if err := makeDir(dir); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
	}
}
