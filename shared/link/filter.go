package link

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckTopic returns an error if nothing may be published to the topic (MQTT 3.1.1, section 4.7). A broker ends the
// session of a client that does.
func CheckTopic(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("the topic is empty")
	case len(topic) > 65535:
		return fmt.Errorf("topic %.40q… is longer than 65535 bytes", topic)
	case strings.ContainsAny(topic, "+#\x00") || !utf8.ValidString(topic):
		return fmt.Errorf("topic %.200q has a wildcard, a NUL or invalid UTF-8", topic)
	}
	return nil
}

// CheckFilter returns an error if the filter is not valid (MQTT 3.1.1, section 4.7).
func CheckFilter(filter string) error {
	bad := func(why string) error { return fmt.Errorf("filter %.200q %s", filter, why) }
	switch {
	case filter == "":
		return bad("is empty")
	case len(filter) > 65535:
		return bad("is longer than 65535 bytes")
	case strings.Contains(filter, "\x00") || !utf8.ValidString(filter):
		return bad("has a NUL or invalid UTF-8")
	}
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if strings.ContainsAny(level, "+#") && len(level) > 1 {
			return bad("has a wildcard that is not a whole level")
		}
		if level == "#" && more {
			return bad("has levels after #")
		}
	}
	return nil
}
