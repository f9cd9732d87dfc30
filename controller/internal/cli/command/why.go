package command

import (
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// PrintWhy shows how something is and why, whatever it is: each fact is a line, and below it where that is known from,
// since when it is so, and what would change it, and when.
func (a *App) PrintWhy(v view.Why) {
	marks := map[view.Level]string{view.LevelError: "!", view.LevelWarning: "~", view.LevelInfo: "-"}
	for i := range v.Sentences {
		s := &v.Sentences[i]
		from, until := s.Source, s.Changes
		switch {
		case s.At.IsZero():
		case s.At.After(a.Now()):
			until += ", in " + a.Left(s.At)
		default:
			from += ", " + a.Ago(s.At)
		}
		a.Paragraph(a.Paint(LevelColour(s.Level), marks[s.Level])+" ", 2, s.Text)
		if i+1 == len(v.Sentences) || !alike(s, &v.Sentences[i+1]) {
			a.Paragraph("    ", 4, "by "+from+"; until "+until)
		}
	}
}

// alike reports whether two facts stand on the same, so that it is said once, below the last of them.
func alike(a, b *view.Because) bool {
	return a.Source == b.Source && a.Changes == b.Changes && a.At.Equal(b.At)
}

// LevelColour is the colour of a level.
func LevelColour(level view.Level) term.Colour {
	return map[view.Level]term.Colour{
		view.LevelError: term.Red, view.LevelWarning: term.Yellow, view.LevelInfo: term.Green,
	}[level]
}
