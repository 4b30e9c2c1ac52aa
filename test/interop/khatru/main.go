// Command khatru serves the khatru relay framework from memory, on the address given.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
)

func main() {
	relay := khatru.NewRelay()
	db := slicestore.SliceStore{}
	if err := db.Init(); err != nil {
		panic(err)
	}
	relay.StoreEvent = append(relay.StoreEvent, db.SaveEvent)
	relay.QueryEvents = append(relay.QueryEvents, db.QueryEvents)
	relay.CountEvents = append(relay.CountEvents, db.CountEvents)
	relay.DeleteEvent = append(relay.DeleteEvent, db.DeleteEvent)
	relay.ReplaceEvent = append(relay.ReplaceEvent, db.ReplaceEvent)
	fmt.Println(http.ListenAndServe(os.Args[1], relay))
	os.Exit(1)
}
