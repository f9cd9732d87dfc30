package link

import "github.com/eclipse/paho.mqtt.golang/packets"

// noStore is paho's message store that stores nothing. A session is clean and its client is never
// used again, so nothing may be replayed (paho's own memory store would do it in map order), and
// leaving it out saves a formatted key and a map entry for each message.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}
