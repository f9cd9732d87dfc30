package link

import "github.com/eclipse/paho.mqtt.golang/packets"

// noStore implements paho's message store and stores nothing. Sessions are clean, and each has its own client, so
// nothing is replayed. paho's memory store would cost a formatted key and a map entry for each message.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}
