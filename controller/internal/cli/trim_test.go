package cli

import (
	"fmt"
	"time"

	"tandem.internal/controller/internal/view"
)

// muchToTrim is a plan of more files than people are shown, while the clock has not jumped.
var muchToTrim = func() view.TrimPlan {
	p := view.TrimPlan{UpTo: 900_000, KeepRecords: 100_000, At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		Records: 550_000, Bytes: 250 << 20, Documents: 3 << 20, Dir: "/srv/tandem-journal", Kinds: []view.TrimKind{
			{Kind: "reports", Rule: "90d/384MiB", There: view.TrimAmount{Records: 800_000, Bytes: 390 << 20},
				Goes: view.TrimAmount{Records: 549_990, Bytes: 249 << 20},
				Why:  map[string]int{"age": 549_000, "size": 990}},
			{Kind: "documents", Rule: "256MiB", There: view.TrimAmount{Records: 110, Bytes: 2 << 20},
				Goes: view.TrimAmount{Records: 10, Bytes: 1 << 20}, Why: map[string]int{"source": 10}},
			{Rule: "all", There: view.TrimAmount{Records: 12, Bytes: 2048}},
		}}
	for i := range uint64(11) {
		p.Files = append(p.Files, view.TrimFile{Name: fmt.Sprintf("journal-1-%d-%d.jsonl.gz", i*60_000+1,
			i*60_000+60_000), First: i*60_000 + 1, Last: i*60_000 + 60_000, Records: 50_000, Bytes: 23 << 20})
	}
	p.Files[0].Documents = p.Documents
	return p
}()
