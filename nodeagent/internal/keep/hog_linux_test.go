package keep

import "fmt"

// asHog takes memory until it gets no more, or half a gigabyte.
func asHog() int {
	var all [][]byte
	for range 512 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	fmt.Println("took", len(all), "MiB")
	return 0
}
