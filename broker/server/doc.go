// Package server is the embedded MQTT broker of a unit: mochi-mqtt, in memory only, behind
// listeners and access rules of its own.
//
// It owns connections, sessions, retained messages and the order "taken, then retained, then
// acknowledged, then delivered". It guarantees that a PUBACK means that the intake has the
// message, that no client can hold up, starve or crash the others, and that whatever it drops,
// refuses or cuts is emitted as an Event. It must not keep anything on disk, decide who is who
// (Config.Auth does), or look into payloads: the journal is the truth and the broker a cache,
// refilled by the controller.
//
// What bites in mochi 2.7.9, the defence, and the test that fails without it (pitfalls_test.go
// unless another file is named):
//
//	pitfall                                          defence                                        test
//	retained messages vanish after 24 h              a store of our own, which forgets nothing      TestRetainedOutliveADay
//	a stalled subscriber freezes every publisher     conn.Write never waits; stalled clients cut    TestStalledSubscriberDelaysNobody
//	wildcard collectors lose messages silently       Intake in OnPublish                            TestIntakeLosesNothing
//	drops for unacknowledged messages show nowhere   the log line is heard (droplog.go)             TestDropsAreTold
//	the accept loop ends at the first error          own accept loop, with back-off                 TestAcceptLoopSurvivesErrors
//	a truncated MQTT 5 SUBSCRIBE kills the process   version 5 refused; each connection recovers    TestTruncatedV5Subscribe
//	recursive read lock with MQTT 5 send quotas      version 5 refused                              TestTruncatedV5Subscribe
//	991 MiB from four packets before CONNECT         CONNECT's length checked before mochi reads    TestHugeLengthAllocatesNothing
//	no deadline before CONNECT                       first-read deadline                            TestFirstReadDeadline
//	its storage hook acknowledges what it lost       none used; what is not taken is not acked      TestNotTakenIsNotAcknowledged
//	the ACL ledger allows by default                 package acl                                    TestAccess
//	a denied publish disconnects, for ever           accepted, discarded and told                   TestDeniedPublishDoesNotDisconnect
//	a publish below $SYS is never acknowledged       denied like any other                          TestDeniedPublishDoesNotDisconnect
//	OnPublish errors are acknowledged                only ErrRejectPacket and CodeSuccessIgnore     TestNotTakenIsNotAcknowledged
//	takeover fires the old will over the new live    the old session's will is dropped              TestTakeover
//	a takeover can lose the new session              one session per ID, the old one awaited        TestTakeoverStorm
//	two clients with one ID fight for ever           told as Fight                                  TestFightIsTold
//	Close publishes every last will                  wills dropped while closing                    TestClosePublishesNoWills
//	copies everything each second for its sweeps     mochi's Serve loop is not run                  TestNothingTicks
//	payloads given to Publish are shared             Publish's contract; nothing changes them       TestInlinePayload
//	persistent sessions replay out of order          every session ends with its connection         TestSessionsEndWithTheConnection
//	a client called "inline" takes the broker's own  refused                                        TestOwnClientIDIsRefused
//	SUBSCRIBE refused for another message's packet ID answered here (subscribe.go)                  TestPacketIDsAreTwoWorlds
//	retain marks are read unguarded                  mochi retains nothing (retained.go)            TestRetainWhileSubscribing (-race)
//	a retained message takes 1.5 KiB besides itself  mochi retains nothing (retained.go)            TestRetainedIsSmall
//	news for a session that is gone reaches the next who has not subscribed reads nothing           TestNewsComesAfterWhatIsRetained
//	an idle client's goroutine keeps 16 KiB of stack it is not mochi's (attend.go)                  TestIdleClientIsShallow
package server
