// Package server is the embedded MQTT broker of a unit: mochi-mqtt, in memory only, with listeners and access rules of
// its own.
//
// It owns connections, sessions and retained messages. A message is first taken by the intake, then retained, then
// acknowledged, then delivered: after a PUBACK the intake has the message. No client can delay, starve or crash the
// others. Everything that the broker drops, refuses or disconnects is reported as an Event.
//
// It keeps nothing on disk, does not authenticate (Config.Auth does), and does not look into payloads: the controller's
// journal has the data, and the controller publishes everything again after a start.
//
// What clients send is read and checked here (front.go), and decoded by mochi only if MQTT 3.1.1 allows it (TestFront,
// FuzzFront): mochi has no release since March 2025.
//
// Defects of mochi 2.7.9, with what this package does about each, and the test that fails without it (in
// pitfalls_test.go unless another file is named):
//
//   - Retained messages vanish after 24 hours: they are in a store of our own, retained.go (TestRetainedOutliveADay).
//   - A subscriber that does not read delays every publisher: conn.Write never waits, and such a client is
//     disconnected (TestStalledSubscriberDelaysNobody).
//   - Subscribers with wildcards lose messages without a sign: the intake is called in OnPublish
//     (TestIntakeLosesNothing).
//   - Messages dropped because too many are unacknowledged are not reported: the log line about them is read,
//     droplog.go (TestDropsAreTold).
//   - The accept loop ends at the first error: own accept loop, which waits and goes on
//     (TestAcceptLoopSurvivesErrors).
//   - A truncated MQTT 5 SUBSCRIBE ends the process: version 5 is refused, and each connection recovers from a panic
//     (TestTruncatedV5Subscribe).
//   - A recursive read lock with MQTT 5 send quotas: version 5 is refused (TestTruncatedV5Subscribe).
//   - Four packets before CONNECT take 991 MiB: lengths are checked before anything is allocated
//     (TestHugeLengthAllocatesNothing).
//   - There is no deadline before CONNECT: there is one for the first packet (TestFirstReadDeadline).
//   - The storage hook acknowledges messages that it could not store: it is not used; a message that the intake did
//     not take is not acknowledged (TestNotTakenIsNotAcknowledged).
//   - The ACL hook permits by default: package acl decides (TestAccess).
//   - A denied publish disconnects the client, which sends it again for ever: it is acknowledged, discarded and
//     reported (TestDeniedPublishDoesNotDisconnect).
//   - A publish below $SYS is never acknowledged: it is denied like any other (TestDeniedPublishDoesNotDisconnect).
//   - After errors of OnPublish messages are acknowledged: only ErrRejectPacket and CodeSuccessIgnore are returned
//     (TestNotTakenIsNotAcknowledged).
//   - A takeover publishes the old last will after the new live message: the old session's will is dropped
//     (TestTakeover).
//   - A takeover can lose the new session: one session for each ID; a new one waits for the end of the old one
//     (TestTakeoverStorm).
//   - Two clients with one ID take over from each other for ever: reported as Fight (TestFightIsTold).
//   - Close publishes every last will: wills are dropped while closing (TestClosePublishesNoWills).
//   - Each second all clients and retained messages are copied: mochi's Serve is not called (TestNothingTicks).
//   - Payloads given to Publish are shared: the contract of Publish; nothing changes them (TestInlinePayload).
//   - Persistent sessions replay messages out of order: each session ends with its connection
//     (TestSessionsEndWithTheConnection).
//   - A client with the ID "inline" replaces the broker's own client: it is refused (TestOwnClientIDIsRefused).
//   - A SUBSCRIBE is refused because a message to the client has the same packet ID: it is answered here, subscribe.go
//     (TestPacketIDsAreTwoWorlds).
//   - Retain flags are read without a lock: mochi retains nothing, retained.go (TestRetainWhileSubscribing (-race)).
//   - A retained message takes 1.5 KiB beside its payload: mochi retains nothing, retained.go (TestRetainedIsSmall).
//   - A message for a session that has ended reaches the next one of the same ID: a client that has not subscribed may
//     read nothing (TestNewsComesAfterWhatIsRetained).
//   - The goroutine of an idle client takes 16 KiB of stack: it is not mochi's, serve.go (TestIdleClientIsShallow).
package server
