package alert

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/unitconfig"
)

func readAll(text string) ([]Sample, *Reader, error) {
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	var all []Sample
	for {
		s, err := r.Next()
		if err == io.EOF {
			return all, r, nil
		}
		if err != nil {
			return all, r, err
		}
		all = append(all, s)
	}
}

func TestReader(t *testing.T) {
	all, r, err := readAll("\ufefftime,download,\"partition:a,b\",cpu\r\n2026-11-20T10:00:00Z,12,,0.5\r\n\r\n" +
		"2026-11-20T12:00:30.5+01:00,,1,0\n")
	if err != nil || r.Seconds() || len(all) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	if want := (Sample{clock.Now{Wall: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)},
		[]Reading{{Download, 12, nil}, {CPU, 0.5, nil}}}); !reflect.DeepEqual(all[0], want) {
		t.Errorf("%+v", all[0])
	}
	if all[1].Mono != time.Hour+30*time.Second+500*time.Millisecond ||
		!reflect.DeepEqual(all[1].Readings, []Reading{{Partition("a,b"), 1, nil}, {CPU, 0, nil}}) {
		t.Errorf("%+v", all[1])
	}
	all, _, err = readAll("time,ram\n2026-11-20t10:00:00z,1\n2026-11-20T11:00:01.5+01:00,1")
	if err != nil || len(all) != 2 || !all[0].Wall.Equal(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("a time in lower case: %+v %v", all, err)
	}
	all, r, err = readAll("time,ram\n0,0\n0.25,1\n1e3,1")
	if err != nil || !r.Seconds() || len(all) != 3 || all[1].Mono != 250*time.Millisecond ||
		all[2].Mono != 1000*time.Second {
		t.Errorf("%v, %+v", err, all)
	}
}

func TestReaderErrors(t *testing.T) {
	const columns = "; there are cpu, ram, download, upload, partition:NAME and inodes:NAME"
	for _, c := range []struct{ text, want string }{
		{"", "line 1, column 1: the file is empty; the first line names the columns, such as time,cpu,ram"},
		{"cpu,time\n", `line 1, column 1: the first column is "cpu"; it must be time`},
		{"time\n", "line 1, column 1: no column but time; add cpu, ram, download, upload or partition:NAME"},
		{"time,cpu,CPU\n", `line 1, column 10: no such column: "CPU"` + columns},
		{"time,partition:\n", `line 1, column 6: no such column: "partition:"` + columns},
		{"time,cpu,ram,cpu\n", `line 1, column 14: the column "cpu" is there twice`},
		{"time,cpu\n1,0.5\n2\n", "line 3, column 1: 1 fields; the first line has 2"},
		{"time,cpu\n1,0.5,0.5\n", "line 2, column 7: 3 fields; the first line has 2"},
		{"time,cpu\n1,0.5\n\n1,0.5\n", `line 4, column 1: the time "1" is not later than the line before`},
		{"time,cpu\n2,0.5\n1.5,0.5\n", `line 3, column 1: the time "1.5" is not later than the line before`},
		{"time,cpu\n1,0.5\n2026-11-20T10:00:00Z,0.5\n",
			`line 3, column 1: "2026-11-20T10:00:00Z" is no time; ` +
				`the first one is a number of seconds from 0 to 8589934591`},
		{"time,cpu\n2026-11-20T10:00:00Z,0.5\n7,0.5\n",
			`line 3, column 1: "7" is no time; want one such as 2026-11-20T10:00:10Z, or seconds in every line`},
		{"time,cpu\n2026-11-20 10:00:00,0.5\n",
			`line 2, column 1: "2026-11-20 10:00:00" is no time; ` +
				`want one such as 2026-11-20T10:00:10Z, or seconds in every line`},
		{"time,cpu\n-1,0.5\n",
			`line 2, column 1: "-1" is no time; the first one is a number of seconds from 0 to 8589934591`},
		{"time,cpu\nNaN,0.5\n",
			`line 2, column 1: "NaN" is no time; the first one is a number of seconds from 0 to 8589934591`},
		{"time,cpu\n0001-01-01T00:00:00Z,0.5\n2026-11-20T10:00:00Z,0.5\n",
			`line 3, column 1: the time "2026-11-20T10:00:00Z" is more than 292 years after the first one`},
		{"time,ram,cpu\n1,0.5,80\n", `line 2, column 7: "80" is above 1; cpu is a fraction from 0 to 1, not percent`},
		{"time,cpu\n1,-0.1\n", `line 2, column 3: "-0.1" is below 0`},
		{"time,cpu\n1,high\n", `line 2, column 3: "high" is no number; leave it empty if it is not known`},
		{"time,cpu\n1,Inf\n", `line 2, column 3: "Inf" is no number; leave it empty if it is not known`},
		{"time,cpu\n1,0.\"5\n", "line 2, column 5: a quote inside a field that has none around it"},
		{"time,cpu\n1,\"0.5\n", "line 2, column 8: a quote that does not end, or something after it"},
		{"time" + strings.Repeat(",cpu", 1024) + "\n", "line 1, column 4098: 1025 columns; 1024 are allowed"},
	} {
		_, _, err := readAll(c.text)
		var ce *CSVError
		if !errors.As(err, &ce) || err.Error() != c.want {
			t.Errorf("%.40q: %v, want %s", c.text, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := NewReader(io.MultiReader(strings.NewReader("time,c"), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("a reading error became %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What is written is read back, to six decimals of a fraction.
func FuzzSamples(f *testing.F) {
	f.Add("time,cpu,ram,download,upload,partition:data,inodes:data\n2026-11-20T10:00:10Z,0.25,0.5,1000,,0.1,0\n")
	f.Add("time,cpu\n0,1\n0.5,0\n")
	f.Add("time,\"partition:a,\"\"b\"\r\n2026-11-20T10:00:00.000001+01:00,1e-7\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, r, err := readAll(text)
		var ce *CSVError
		if err != nil && (!errors.As(err, &ce) || ce.Line < 1 || ce.Column < 1) {
			t.Fatalf("%T %v", err, err)
		}
		if r == nil || len(all) == 0 {
			return
		}
		var b strings.Builder
		b.WriteString(CSVHeader(r.columns) + "\n")
		for _, s := range all {
			if y := s.Wall.Year(); y < 0 || y > 9999 || s.Wall.Nanosecond()%1000 != 0 {
				return // cannot be written to the microsecond
			}
			b.WriteString(CSVLine(s, r.columns) + "\n")
		}
		again, r2, err := readAll(b.String())
		if err != nil || !reflect.DeepEqual(r.columns, r2.columns) || len(again) != len(all) {
			t.Fatalf("%v: %d and %d samples\n%s", err, len(all), len(again), b.String())
		}
		for i, s := range again {
			if !s.Wall.Equal(all[i].Wall) || len(s.Readings) != len(all[i].Readings) {
				t.Fatalf("%+v became %+v", all[i], s)
			}
			for k, r := range s.Readings {
				if d := r.Value - all[i].Readings[k].Value; d > 5.1e-7 || d < -5.1e-7 {
					t.Fatalf("%+v became %+v", all[i], s)
				}
			}
		}
	})
}

func TestRules(t *testing.T) {
	got := Rules(unitconfig.AlertRules{
		RAM: &unitconfig.FractionRule{MinThreshold: 0.1, MaxThreshold: 0.9},
		CPU: &unitconfig.FractionRule{MinTimeout: duration.Duration(time.Second), MinThreshold: 0.3, MaxThreshold: 0.8},
		Partitions: []unitconfig.PartitionRule{
			{Name: "services", MinThreshold: 0.5, MaxThreshold: 0.9},
			{Name: "data", MinThreshold: 0.6, MaxThreshold: 0.7}},
		Upload:   &unitconfig.TrafficRule{MinThreshold: 300, MaxThreshold: 400},
		Download: &unitconfig.TrafficRule{MinTimeout: duration.Duration(time.Minute), MinThreshold: 1, MaxThreshold: 2},
	})
	want := []Rule{{CPU, duration.Duration(time.Second), 0.3, 0.8}, {RAM, 0, 0.1, 0.9},
		{"partition:services", 0, 0.5, 0.9}, {"partition:data", 0, 0.6, 0.7},
		{Download, duration.Duration(time.Minute), 1, 2}, {Upload, 0, 300, 400}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := Rules(unitconfig.AlertRules{}); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestReplay(t *testing.T) {
	text := "time,cpu,upload\n0,0.1,\n10,0.9,5\n20,0.9,\n30,0.1,1\n40,0.1,\n50,0.9,\n80,0.9,\n"
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	rules := []Rule{{CPU, 0, 0.3, 0.8}, {RAM, 0, 0.3, 0.8}, {Upload, 0, 3, 4}}
	got, err := Run("n", rules, Limits{RuleBurst: 1}, r.Next)
	if err != nil || len(got.Alerts) != 3 {
		t.Fatalf("%v: %+v", err, got)
	}
	want := []Outcome{
		{Rule: rules[0], Samples: 7, Lowest: 0.1, Highest: 0.9, Raises: 1, Falls: 1, Up: true,
			UpFor: duration.Duration(60 * time.Second), LongestUp: duration.Duration(30 * time.Second),
			lastUp: duration.Duration(30 * time.Second)},
		{Rule: rules[1], Unknown: 7},
		{Rule: rules[2], Samples: 2, Unknown: 5, Lowest: 1, Highest: 5, Raises: 1, Up: true,
			UpFor: duration.Duration(70 * time.Second), LongestUp: duration.Duration(70 * time.Second),
			lastUp: duration.Duration(70 * time.Second)},
	}
	if !reflect.DeepEqual(got.Rules, want) {
		t.Errorf("got  %+v\nwant %+v", got.Rules, want)
	}
	bad := errors.New("bad")
	if _, err := Run("n", rules, Limits{}, func() (Sample, error) { return Sample{}, bad }); err != bad {
		t.Error(err)
	}
}
