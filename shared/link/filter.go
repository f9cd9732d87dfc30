package link

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckTopic says why a topic cannot be published to (MQTT 3.1.1, section 4.7), or returns nil.
// A broker ends the session of a client that publishes to such a topic.
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

// CheckFilter says why a filter cannot be subscribed to (MQTT 3.1.1, section 4.7), or returns nil.
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
