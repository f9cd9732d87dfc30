package limits

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds of values. maxQuota is what the kernel takes; least memory is a guard against a forgotten suffix.
const (
	leastMemory   = 64 << 10
	maxQuota      = 1 << 44 / 1000 // microseconds: the kernel keeps nanoseconds below 2^44
	defaultPeriod = 100_000        // microseconds
)

// unlimited stands for max and -1.
const unlimited = math.MaxInt64

// values are what constraints say, in v2's scales; unlimited for none. What was not said is 0.
type values struct {
	memoryMax, memoryLow, memoryHigh, memoryAndSwap, swapMax int64 // bytes
	swappiness                                               int64
	cpuWeight                                                int64 // 1 to 10000
	cpuShares                                                int64 // as given, 0 if cpuWeight was
	cpuQuota, cpuPeriod, cpuBurst                            int64 // microseconds
	ioWeight                                                 int64 // 1 to 10000
	blkio                                                    int64 // blkio.weight as given, 0 if ioWeight was
	devices                                                  []device
	pidsMax                                                  int64
}

// The weights of the versions have other scales with other defaults. They are converted so that the
// default stays the default and relations stay, as systemd does it; what is beyond the other scale's
// end is moved to its end.
const (
	defaultShares = 1024
	defaultBlkio  = 500
	defaultWeight = 100
)

// shares is the CPU weight in v1's scale.
func (v *values) shares() int64 {
	if v.cpuShares != 0 {
		return v.cpuShares
	}
	return clamp(v.cpuWeight*defaultShares/defaultWeight, 2, 262_144)
}

// blkioWeight is the weight of input and output in v1's scale.
func (v *values) blkioWeight() int64 {
	if v.blkio != 0 {
		return v.blkio
	}
	return clamp(v.ioWeight*defaultBlkio/defaultWeight, 10, 1000)
}

func readShares(v *values, text string) error {
	if err := numberOf(text, 2, 262_144, &v.cpuShares); err != nil {
		return err
	}
	v.cpuWeight = clamp(v.cpuShares*defaultWeight/defaultShares, 1, 10_000)
	return nil
}

func readBlkioWeight(v *values, text string) error {
	if err := numberOf(text, 10, 1000, &v.blkio); err != nil {
		return err
	}
	v.ioWeight = clamp(v.blkio*defaultWeight/defaultBlkio, 1, 10_000)
	return nil
}

// readIOWeight takes "100" and "default 100".
func readIOWeight(v *values, text string) error {
	return numberOf(strings.TrimSpace(strings.TrimPrefix(text, "default ")), 1, 10_000, &v.ioWeight)
}

// readCPUMax takes "QUOTA" and "QUOTA PERIOD".
func readCPUMax(v *values, text string) error {
	fields := strings.Fields(text)
	if len(fields) < 1 || len(fields) > 2 {
		return errors.New("a quota and maybe a period are wanted, such as 50000 100000")
	}
	if len(fields) == 2 {
		if err := numberOf(fields[1], 1000, 1_000_000, &v.cpuPeriod); err != nil {
			return err
		}
	}
	return quotaOf(fields[0], &v.cpuQuota)
}

// bytesOf reads a number of bytes: 20G, 512M, 1048576, max or -1. Suffixes are powers of 1024, as the kernel has them.
func bytesOf(text string, least int64, to *int64) error {
	if text == "max" || text == "-1" {
		*to = unlimited
		return nil
	}
	digits, shift := text, 0
	if text != "" {
		if i := strings.IndexByte("KMGTP", text[len(text)-1]&^0x20); i >= 0 {
			digits, shift = text[:len(text)-1], 10*(i+1)
		}
	}
	n, err := decimalOf(digits)
	if err != nil {
		return errors.New("a number of bytes is wanted, such as 1048576, 512M or 20G, or max")
	}
	if n > (unlimited-1)>>shift {
		return errors.New("this is more than a number of bytes can be")
	}
	if n <<= shift; n < least {
		return fmt.Errorf("%d bytes are less than any process needs; is a suffix missing, as in 20G", n)
	}
	*to = n
	return nil
}

func numberOf(text string, least, most int64, to *int64) error {
	n, err := decimalOf(text)
	if err != nil || n < least || n > most {
		return fmt.Errorf("a number from %d to %d is wanted", least, most)
	}
	*to = n
	return nil
}

func quotaOf(text string, to *int64) error {
	if text == "max" || text == "-1" {
		*to = unlimited
		return nil
	}
	if err := numberOf(text, 1000, maxQuota, to); err != nil {
		return fmt.Errorf("microseconds of each period are wanted, from 1000 to %d, or max", int64(maxQuota))
	}
	return nil
}

func countOf(text string, to *int64) error {
	if text == "max" || text == "-1" {
		*to = unlimited
		return nil
	}
	if err := numberOf(text, 1, 4<<20, to); err != nil {
		return fmt.Errorf("a number of processes from 1 to %d is wanted, or max", 4<<20)
	}
	return nil
}

// decimalOf reads digits and nothing else: no sign, no underscore.
func decimalOf(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(text, 10, 64)
}

func clamp(n, least, most int64) int64 { return max(least, min(n, most)) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func minusOne(n int64) string {
	if n == unlimited {
		return "-1"
	}
	return decimal(n)
}

func orMax(n int64) string {
	if n == unlimited {
		return "max"
	}
	return decimal(n)
}

// plus and minus reckon with unlimited.
func plus(a, b int64) int64 {
	if a == unlimited || b == unlimited || a > unlimited-1-b {
		return unlimited
	}
	return a + b
}

func minus(a, b int64) int64 {
	if a == unlimited {
		return unlimited
	}
	return a - b
}
