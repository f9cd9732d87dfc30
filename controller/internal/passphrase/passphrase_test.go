package passphrase

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"tandem.internal/shared/race"
)

// TestRecipient: what is encrypted is as hard to open as age makes it, which its second line says; and it opens.
func TestRecipient(t *testing.T) {
	to, err := Recipient("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := age.Encrypt(&file, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	line := strings.Split(file.String(), "\n")[1]
	if !strings.HasPrefix(line, "-> scrypt ") || strings.HasSuffix(line, " 18") == race.Enabled {
		t.Error(line)
	}
	id, err := age.NewScryptIdentity("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := age.Decrypt(&file, id)
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(plain); err != nil || len(rest) != 0 {
		t.Errorf("%q %v", rest, err)
	}
}

func TestEmpty(t *testing.T) {
	if _, err := Recipient(""); err == nil {
		t.Error("an empty passphrase is taken")
	}
}
