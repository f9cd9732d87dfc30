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

// What is wrong with an address is said with the rule, and a port that was forgotten is thought of.
func TestAddressesOfHurry(t *testing.T) {
	for url, want := range map[string]string{
		"127.0.0.1:8885":          "it begins with neither https:// nor http://",
		"gateway":                 "it begins with neither https:// nor http://",
		"https://":                `"https://" is not an address such as`,
		"http://127.0.0.1:99999":  "is no number from 1 to 65535",
		"http://127.0.0.1:0":      "is no number from 1 to 65535",
		"https://127.0.0.1/":      "names no port, which is that of https then: is it https://127.0.0.1:8885?",
		"https://127.0.0.1:8885/": "is tandem-controller running with its HTTP address set?",
	} {
		c, err := New(Options{URL: url})
		if err == nil {
			err = c.unreachable(t.Context(), "GET", refused)
			c.Close()
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s; want %s", url, err, want)
		}
	}
}
