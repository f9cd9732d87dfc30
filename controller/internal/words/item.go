package words

import (
	"fmt"
	"strings"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// ofItems renders a change of an update item, a subject, or a move; false: the entry is about something else.
func ofItems(e view.Entry) (text string, is bool) {
	switch wire.Kind(e.Kind) {
	case record.KindItems:
		return read(e.Data, func(d record.ItemData) string {
			name := d.Ref().String()
			switch {
			case d.ID != "":
				return name + " created as urn:uuid:" + d.ID
			case d.Meta != nil:
				text := name + " " + d.Meta.Version + " released"
				if d.State == items.Ready {
					text += ", ready"
				}
				return text
			case d.Removed:
				return strings.TrimSpace(name+" "+d.Version) + " removed"
			}
			return name + " " + d.Version + " " + string(d.State)
		})
	case record.KindMoves:
		return read(e.Data, func(d record.MoveData) string {
			move := fmt.Sprintf("%s of %s, instance %d, from %s to %s", d.Codename, d.Subject, d.Index, d.From, d.To)
			if d.Ended != "" {
				return "move of " + move + ": " + d.Ended
			}
			return fmt.Sprintf("move of %s decided: %.3g of its %s was used on average for %s", move, d.Average,
				strings.ToUpper(d.Parameter), d.For.Std())
		})
	case record.KindSubjects:
		return read(e.Data, func(d record.SubjectData) string {
			if d.Removed {
				return "subject " + d.Codename + " removed"
			}
			return "subject " + d.Codename + " set"
		})
	case record.KindWanted:
		return read(e.Data, func(d record.WantedData) string {
			if d.CorrelationID == "" {
				return "desired status set"
			}
			return "desired status set, correlation ID " + d.CorrelationID
		})
	}
	return "", false
}
