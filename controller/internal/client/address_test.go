package client

import (
	"strings"
	"testing"
)

// An address goes into the file of contexts and is shown again. A link to the dashboard is no such address: it has a
// token, which is not shown either.
func TestNoAddressHasAToken(t *testing.T) {
	for _, url := range []string{
		"https://h:1/#tdo1.SEKRET", "https://h:1/#once=tdo1.SEKRET", "https://h:1?token=tdo1.SEKRET",
		"https://h:1/tdo1.SEKRET", "h:1/#tdo1.SEKRET", "https://h:1/%zz#tdo1.SEKRET", "https://h:1/#/nodes/n1",
	} {
		c, err := New(Options{URL: url})
		if err == nil {
			c.Close()
			t.Errorf("%s is an address", url)
		} else if strings.Contains(err.Error(), "SEKRET") {
			t.Errorf("%s: %s", url, err)
		}
	}
	for _, url := range []string{"https://h:1", "https://h:1/", "https://h:1/line4/"} {
		c, err := New(Options{URL: url})
		if err != nil {
			t.Errorf("%s: %s", url, err)
			continue
		}
		c.Close()
	}
}
