package alert

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"tandem.internal/shared/clock"
)

// The CSV form of samples. The first line names the columns: time first, then any parameters, each
// once. A time is an RFC 3339 time or a number of seconds, the same form in every line, and later than
// the one before. A value is a fraction from 0 to 1, or bytes per second; an empty one is unknown.
//
//	time,cpu,ram,partition:data
//	2026-11-20T10:00:10Z,0.25,0.5,
const timeColumn = "time"

// maxColumns bounds a line of the CSV form.
const maxColumns = 1024

// CSVError is what is wrong with recorded samples. Line and Column count from 1; Column is in bytes.
type CSVError struct {
	Line, Column int
	Message      string
}

// Error renders place and message.
func (e *CSVError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Reader reads recorded samples, strictly.
type Reader struct {
	csv     *csv.Reader
	columns []Parameter
	seconds bool // times are numbers
	begun   bool
	first   time.Time // wall of the first sample
	last    time.Time
}

// NewReader reads the line that names the columns. Its error, and Next's, is a *CSVError or what r
// returned.
func NewReader(r io.Reader) (*Reader, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	rd := &Reader{csv: c}
	names, err := c.Read()
	if err == io.EOF {
		return nil, &CSVError{1, 1, "the file is empty; the first line names the columns, such as time,cpu,ram"}
	}
	if err != nil {
		return nil, rd.syntax(err)
	}
	if len(names) > maxColumns {
		return nil, rd.bad(maxColumns, fmt.Sprintf("%d columns; %d are allowed", len(names), maxColumns))
	}
	if names[0] = strings.TrimPrefix(names[0], "\ufeff"); names[0] != timeColumn {
		return nil, rd.bad(0, fmt.Sprintf("the first column is %.64q; it must be time", names[0]))
	}
	if len(names) == 1 {
		return nil, rd.bad(0, "no column but time; add cpu, ram, download, upload or partition:NAME")
	}
	seen := map[Parameter]bool{}
	for i, name := range names[1:] {
		p := Parameter(strings.Clone(name))
		if !p.valid() {
			return nil, rd.bad(i+1, fmt.Sprintf("no such column: %.64q; there are cpu, ram, download, upload, "+
				"partition:NAME and inodes:NAME", name))
		}
		if seen[p] {
			return nil, rd.bad(i+1, fmt.Sprintf("the column %.64q is there twice", name))
		}
		seen[p] = true
		rd.columns = append(rd.columns, p)
	}
	return rd, nil
}

// Seconds says whether the times are numbers of seconds. It is known after the first Next.
func (r *Reader) Seconds() bool { return r.seconds }

// Next returns the next sample, or io.EOF. Seconds are taken as Unix time, and the first sample is at
// zero on the monotonic clock.
func (r *Reader) Next() (Sample, error) {
	fields, err := r.csv.Read()
	if err == io.EOF {
		return Sample{}, err
	}
	if err != nil {
		return Sample{}, r.syntax(err)
	}
	if len(fields) != len(r.columns)+1 {
		return Sample{}, r.bad(len(fields)-1, fmt.Sprintf("%d fields; the first line has %d", len(fields),
			len(r.columns)+1))
	}
	at, err := r.time(fields[0])
	if err != nil {
		return Sample{}, r.bad(0, err.Error())
	}
	if r.begun && !at.After(r.last) {
		return Sample{}, r.bad(0, fmt.Sprintf("the time %.64q is not later than the line before", fields[0]))
	}
	if !r.begun {
		r.begun, r.first = true, at
	}
	s := Sample{Now: clock.Now{Mono: at.Sub(r.first), Wall: at}, Readings: make([]Reading, 0, len(r.columns))}
	if s.Mono == math.MaxInt64 {
		return Sample{}, r.bad(0, fmt.Sprintf("the time %.64q is more than 292 years after the first one", fields[0]))
	}
	r.last = at
	for i, p := range r.columns {
		text := fields[i+1]
		if text == "" {
			continue
		}
		v, err := value(p, text)
		if err != nil {
			return Sample{}, r.bad(i+1, err.Error())
		}
		s.Readings = append(s.Readings, Reading{Parameter: p, Value: v})
	}
	return s, nil
}

// time reads a time. The first one decides which form the file has.
func (r *Reader) time(text string) (time.Time, error) {
	if !r.begun {
		_, err := strconv.ParseFloat(text, 64)
		r.seconds = err == nil
	}
	if r.seconds {
		// Every double below this is exact to a microsecond, and Unix time is there for 270 years.
		const most = 1 << 33
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s >= 0 && s < most) {
			return time.Time{}, fmt.Errorf("%.64q is no time; the first one is a number of seconds from 0 to %d", text,
				int64(most-1))
		}
		return time.Unix(0, 0).Add(time.Duration(math.Round(s*1e6)) * time.Microsecond).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text)) // RFC 3339 allows t and z
	if err != nil {
		return time.Time{}, fmt.Errorf(
			`%.64q is no time; want one such as 2026-11-20T10:00:10Z, or seconds in every line`, text)
	}
	return at, nil
}

func value(p Parameter, text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%.64q is no number; leave it empty if it is not known", text)
	case v < 0:
		return 0, fmt.Errorf("%.64q is below 0", text)
	case p.Fraction() && v > 1:
		return 0, fmt.Errorf("%.64q is above 1; %s is a fraction from 0 to 1, not percent", text, p)
	}
	return v + 0, nil // no negative zero
}

func (r *Reader) bad(field int, message string) error {
	line, column := r.csv.FieldPos(field)
	return &CSVError{line, column, message}
}

func (r *Reader) syntax(err error) error {
	var pe *csv.ParseError
	if !errors.As(err, &pe) {
		return err
	}
	what := pe.Err.Error()
	switch pe.Err {
	case csv.ErrQuote:
		what = `a quote that does not end, or something after it`
	case csv.ErrBareQuote:
		what = `a quote inside a field that has none around it`
	}
	return &CSVError{pe.Line, pe.Column, what}
}

// CSVHeader returns the first line of the CSV form, without its end.
func CSVHeader(columns []Parameter) string {
	var b strings.Builder
	b.WriteString(timeColumn)
	for _, p := range columns {
		b.WriteString("," + quoted(string(p)))
	}
	return b.String()
}

// CSVLine returns a sample as a line of the CSV form, without its end: the time to the microsecond,
// and what is unknown empty. Fractions have six decimals.
func CSVLine(s Sample, columns []Parameter) string {
	b := s.Wall.UTC().AppendFormat(nil, "2006-01-02T15:04:05.999999Z07:00")
	for i, p := range columns {
		b = append(b, ',')
		v, ok, _ := s.known(p, i)
		switch {
		case !ok:
		case p.Fraction():
			b = strconv.AppendFloat(b, math.Round(v*1e6)/1e6, 'f', -1, 64)
		default:
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		}
	}
	return string(b)
}

func quoted(name string) string {
	if !strings.ContainsAny(name, ",\"\r\n") {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
