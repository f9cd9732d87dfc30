package wire

import (
	"fmt"
	"math"
	"strconv"
)

// Samples is what a node has measured lately, the oldest first. It answers MethodSamples.
type Samples struct {
	Period     string       `json:"period"`     // between two of them, ISO 8601
	Parameters []string     `json:"parameters"` // names: cpu, ram, download, upload, partition:NAME and inodes:NAME
	At         []int64      `json:"at"`         // when each was taken, in milliseconds of Unix time by the node's clock
	Values     [][]Measured `json:"values"`     // of each parameter, as many as At
}

// Measured is a value that was measured: a fraction from 0 to 1, or bytes per second. NaN is null on the wire: not
// known.
type Measured float64

// MarshalJSON writes six digits.
func (m Measured) MarshalJSON() ([]byte, error) {
	v := float64(m)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 6, 64), nil
}

// UnmarshalJSON reads a number, or null.
func (m *Measured) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*m = Measured(math.NaN())
		return nil
	}
	v, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return fmt.Errorf("%.20q is no number that was measured", data)
	}
	*m = Measured(v)
	return nil
}

func (s *Samples) check() error {
	if len(s.Values) != len(s.Parameters) {
		return New(CodeBadValue, "/values", "not as many as parameters")
	}
	for i, p := range s.Parameters {
		at := strconv.Itoa(i)
		if err := text("/parameters/"+at, p); err != nil {
			return err
		}
		if len(s.Values[i]) != len(s.At) {
			return New(CodeBadValue, "/values/"+at, "not as many as at")
		}
	}
	return first(text("/period", s.Period))
}
