// Command khatru-blossom serves the Blossom package of khatru: events in memory, blobs in memory, on the address given.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/fiatjaf/khatru/blossom"
)

func main() {
	relay := khatru.NewRelay()
	db := slicestore.SliceStore{}
	if err := db.Init(); err != nil {
		panic(err)
	}
	var lock sync.Mutex
	blobs := map[string][]byte{}
	server := blossom.New(relay, "http://"+os.Args[1])
	server.Store = blossom.EventStoreBlobIndexWrapper{Store: &db, ServiceURL: server.ServiceURL}
	server.StoreBlob = append(server.StoreBlob, func(_ context.Context, sha256 string, _ string, body []byte) error {
		lock.Lock()
		defer lock.Unlock()
		blobs[sha256] = body
		return nil
	})
	server.LoadBlob = append(server.LoadBlob, func(_ context.Context, sha256 string, _ string) (io.ReadSeeker, error) {
		lock.Lock()
		defer lock.Unlock()
		body, ok := blobs[sha256]
		if !ok {
			return nil, fmt.Errorf("no such blob")
		}
		return bytes.NewReader(body), nil
	})
	fmt.Println(http.ListenAndServe(os.Args[1], relay))
	os.Exit(1)
}
