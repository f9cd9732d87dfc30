package strictjson

import (
	"strings"
	"testing"
)

// Places that are asked for one behind the other are those that are found each by itself.
func TestLinesFindWhatTheReaderFinds(t *testing.T) {
	text := []byte("{\"ä\": 1, \"b\": [2,\n 3, \"☂\",\n\n 4]}" + strings.Repeat(` {"é":"x"},`, 3))
	r, lines := &Reader{data: text}, LinesOf(text)
	for off := 0; off <= len(text); off++ {
		if off < len(text) && text[off]&0xC0 == 0x80 {
			continue // inside a character
		}
		line, column := lines.Place(At{Off: off})
		if wantLine, wantColumn := r.Place(At{Off: off}); line != wantLine || column != wantColumn {
			t.Fatalf("at %d: %d:%d, want %d:%d", off, line, column, wantLine, wantColumn)
		}
	}
}
