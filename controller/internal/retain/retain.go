// Package retain decides which records of the journal are kept, by age, number and size of each kind. It is pure.
//
//tandem:pure
package retain

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/event"
)

// Kind is what is counted together.
type Kind string

// The kinds. Of Always no record goes.
const (
	Reports   Kind = "reports"   // what nodes reported, and when they were there
	Events    Kind = "events"    // events of nodes but alerts, and what went wrong
	Alerts    Kind = "alerts"    // that an alert rule of the unit configuration spoke
	Issued    Kind = "issued"    // which nodes were sent what
	Documents Kind = "documents" // what was submitted, accepted or refused, with the documents
	Audit     Kind = "audit"     // who ordered, joined or was revoked, and what became of it
	Always    Kind = ""          // what is set, keys, CAs, and what was trimmed
)

// Kinds are those that can be limited, in the order in which people are told them.
var Kinds = []Kind{Reports, Events, Alerts, Issued, Documents, Audit}

// Of is the kind of a record with a type and a kind of its own.
func Of(t record.Type, of string) Kind {
	switch t {
	case record.Report, record.Live, record.Proves:
		return Reports
	case record.Event:
		if of == event.Alert {
			return Alerts
		}
		return Events
	case record.Trouble, record.JoinRefused:
		return Events
	case record.Issued, record.Withdrawn:
		return Issued
	case record.Accepted, record.Refused:
		return Documents
	case record.Settings:
		if of == string(record.KindWanted) {
			return Documents
		}
		return Always
	case record.Keys, record.CA, record.Root, record.Trimmed:
		return Always
	}
	return Audit
}

// Rule is what is kept at most of a kind. Zero fields limit nothing.
type Rule struct {
	Age     time.Duration // younger than this
	Records int           // so many, the newest
	Bytes   int64         // so many, the newest
}

// Rules has a rule for each kind.
type Rules map[Kind]Rule

// Default says what is kept unless an operator sets something else, as Parse reads it. The sizes come to less than 2
// GiB: pages of the file that have lost some of their records are filled to a quarter at least.
func Default() map[string]string {
	return map[string]string{
		string(Reports): "90d/384MiB", string(Events): "400d/448MiB", string(Alerts): "800d/160MiB",
		string(Issued): "400d/256MiB", string(Documents): "256MiB", string(Audit): "3650d/256MiB",
	}
}

// DefaultRules are those of Default.
func DefaultRules() Rules {
	rules, err := Parse(nil)
	if err != nil {
		panic("retain: " + err.Error()) // they are above
	}
	return rules
}

// Parse reads the rules of some kinds; the others have their default. Its errors name the kind and the part.
func Parse(text map[string]string) (Rules, error) {
	all := Default()
	maps.Copy(all, text)
	rules := Rules{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		kind := Kind(name)
		if !slices.Contains(Kinds, kind) {
			return nil, fmt.Errorf("%.40q is no kind of records: %s", name, names())
		}
		rule, err := parseRule(all[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rules[kind] = rule
	}
	return rules, nil
}

func names() string {
	all := make([]string, len(Kinds))
	for i, k := range Kinds {
		all[i] = string(k)
	}
	return strings.Join(all, ", ")
}

// everything is the rule without a limit.
const everything = "all"

func parseRule(text string) (r Rule, err error) {
	if text == everything {
		return r, nil
	}
	for part := range strings.SplitSeq(text, "/") {
		one, err := parseLimit(part)
		if err != nil {
			return Rule{}, err
		}
		if one.Age > 0 && r.Age > 0 || one.Records > 0 && r.Records > 0 || one.Bytes > 0 && r.Bytes > 0 {
			return Rule{}, fmt.Errorf("%.40q is the second limit of its sort", part)
		}
		r = Rule{r.Age + one.Age, r.Records + one.Records, r.Bytes + one.Bytes}
	}
	return r, nil
}

// String is the rule as Parse reads it.
func (r Rule) String() string {
	var parts []string
	if r.Age > 0 {
		end, in := "h", time.Hour
		if r.Age%(24*time.Hour) == 0 {
			end, in = "d", 24*time.Hour
		}
		parts = append(parts, strconv.FormatInt(int64(r.Age/in), 10)+end)
	}
	if r.Bytes > 0 {
		end, in := "KiB", int64(1<<10)
		for _, u := range units {
			if u.size > in && r.Bytes%u.size == 0 {
				end, in = u.end, u.size
			}
		}
		parts = append(parts, strconv.FormatInt(r.Bytes/in, 10)+end)
	}
	if r.Records > 0 {
		parts = append(parts, strconv.Itoa(r.Records))
	}
	if parts == nil {
		return everything
	}
	return strings.Join(parts, "/")
}

// units are the ends of ages and sizes, with what they count in.
var units = []struct {
	end  string
	size int64 // bytes; 0: an age
	age  time.Duration
}{
	{"KiB", 1 << 10, 0}, {"MiB", 1 << 20, 0}, {"GiB", 1 << 30, 0}, {"d", 0, 24 * time.Hour}, {"h", 0, time.Hour},
}

func parseLimit(part string) (r Rule, err error) {
	wrong := fmt.Errorf("%.40q is none of an age (400d or 36h), a size (512MiB; KiB, GiB), a number of records, and %s",
		part, everything)
	digits := strings.TrimRight(part, "KMGiBdh")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || digits[0] == '+' {
		return r, wrong
	}
	if digits == part && n <= math.MaxInt {
		return Rule{Records: int(n)}, nil
	}
	for _, u := range units {
		if part != digits+u.end {
			continue
		}
		if n > math.MaxInt64/max(u.size, int64(u.age)) {
			return r, fmt.Errorf("%.40q is too much; %s keeps everything", part, everything)
		}
		return Rule{Bytes: n * u.size, Age: time.Duration(n) * u.age}, nil
	}
	return r, wrong
}
