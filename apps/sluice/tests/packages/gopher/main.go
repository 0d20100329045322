// A component of the router in Go, written from docs/xrl.md and the .proto files alone: it announces the prefixes that are
// configured as routes that discard.
package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Kinds of frames.
const (
	hello, bind, call, callWithin, cancel, reply, failure = 1, 2, 3, 4, 5, 6, 7
)

const application = 100

// A message of protobuf, as it is written.
type message []byte

func (m message) varint(v uint64) message {
	for v >= 0x80 {
		m = append(m, byte(v)|0x80)
		v >>= 7
	}
	return append(m, byte(v))
}

func (m message) number(field int, v uint64) message {
	if v == 0 {
		return m
	}
	return m.varint(uint64(field << 3)).varint(v)
}

func (m message) octets(field int, v []byte) message {
	return append(m.varint(uint64(field<<3|2)).varint(uint64(len(v))), v...)
}

func (m message) text(field int, v string) message { return m.octets(field, []byte(v)) }

// Fields of a message that was read: numbers, and octets, by field.
type fields struct {
	numbers map[int]uint64
	octets  map[int][][]byte
}

func parse(data []byte) (fields, error) {
	f := fields{map[int]uint64{}, map[int][][]byte{}}
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return f, errors.New("a tag that does not end")
		}
		data = data[n:]
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return f, errors.New("a number that does not end")
		}
		data = data[n:]
		switch tag & 7 {
		case 0:
			f.numbers[int(tag>>3)] = v
		case 2:
			if v > uint64(len(data)) {
				return f, errors.New("a field that does not end")
			}
			f.octets[int(tag>>3)] = append(f.octets[int(tag>>3)], data[:v])
			data = data[v:]
		default:
			return f, errors.New("a field of another kind")
		}
	}
	return f, nil
}

func (f fields) text(field int) string {
	if all := f.octets[field]; len(all) > 0 {
		return string(all[len(all)-1])
	}
	return ""
}

// A frame of a connection.
type frame struct {
	kind     byte
	sequence uint32
	method   uint16
	body     []byte
}

func (f frame) octets() []byte {
	out := make([]byte, 11, 11+len(f.body))
	binary.BigEndian.PutUint32(out, uint32(7+len(f.body)))
	out[4] = f.kind
	binary.BigEndian.PutUint32(out[5:], f.sequence)
	binary.BigEndian.PutUint16(out[9:], f.method)
	return append(out, f.body...)
}

func readFrame(from io.Reader) (frame, error) {
	head := make([]byte, 11)
	if _, err := io.ReadFull(from, head); err != nil {
		return frame{}, err
	}
	length := binary.BigEndian.Uint32(head)
	if length < 7 || length > 1<<24 {
		return frame{}, errors.New("a length that cannot be")
	}
	body := make([]byte, length-7)
	_, err := io.ReadFull(from, body)
	return frame{head[4], binary.BigEndian.Uint32(head[5:]), binary.BigEndian.Uint16(head[9:]), body}, err
}

// A connection by which this process calls; one call at a time.
type caller struct {
	conn     net.Conn
	reader   *bufio.Reader
	lock     sync.Mutex
	sequence uint32
	methods  uint16
}

func dial(path string) (*caller, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	_, err = conn.Write(frame{hello, 0, 2, []byte("XRL\n")}.octets())
	return &caller{conn: conn, reader: bufio.NewReader(conn)}, err
}

// The process and the user at the other end of a Unix socket.
func peer(conn net.Conn) (*syscall.Ucred, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var found *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		found, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return found, errors.Join(err, failed)
}

// What a caller says of itself before the path in a Bind frame.
func credential(key []byte, grant uint64, principal string) []byte {
	out := binary.BigEndian.AppendUint64(append([]byte{}, key...), grant)
	return append(append(out, byte(len(principal))), principal...)
}

func (c *caller) call(path string, credential []byte, request message) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.sequence++
	number := c.methods
	c.methods = (c.methods + 1) % 256
	out := frame{bind, 0, number, append(append([]byte{}, credential...), path...)}.octets()
	out = append(out, frame{call, c.sequence, number, request}.octets()...)
	if _, err := c.conn.Write(out); err != nil {
		return nil, err
	}
	for {
		f, err := readFrame(c.reader)
		switch {
		case err != nil:
			return nil, err
		case f.kind == failure && len(f.body) >= 6:
			return nil, fmt.Errorf("%s: error %d: %s", path, binary.BigEndian.Uint16(f.body), f.body[6:])
		case f.kind == reply && f.sequence == c.sequence:
			return f.body, nil
		}
	}
}

// The component.
type gopher struct {
	class     string
	finder    *caller
	principal string
	instance  string
	seal      []byte
	methods   map[string]bool
	lock     sync.Mutex
	running  map[string]uint64
	prepared map[string]uint64
	ready    bool
	end      chan bool
}

type change struct {
	Clear bool
	Edits []struct {
		Name  string
		Key   []string
		Value *struct{ Metric uint64 }
	}
}

func (g *gopher) ask(method string, request message) ([]byte, error) {
	return g.finder.call("finder/finder.v1.Finder/"+method, credential(make([]byte, 16), 0, ""), request)
}

func (g *gopher) serve(method string, request fields) (message, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	switch method {
	case "GetStatus":
		status := message{}.text(1, g.class).text(2, "1")
		if g.ready {
			status = status.number(3, 1)
		}
		return status, nil
	case "Prepare":
		var c change
		if err := json.Unmarshal([]byte(request.text(2)), &c); err != nil {
			return nil, err
		}
		prefixes := map[string]uint64{}
		for net, metric := range g.running {
			if !c.Clear {
				prefixes[net] = metric
			}
		}
		for _, edit := range c.Edits {
			if edit.Value != nil {
				prefixes[edit.Key[0]] = edit.Value.Metric
			} else {
				delete(prefixes, edit.Key[0])
			}
		}
		for text := range prefixes {
			if _, _, err := net.ParseCIDR(text); err != nil {
				return nil, errors.New("prefix: " + err.Error())
			}
		}
		g.prepared = prefixes
		return nil, nil
	case "Apply":
		before := g.running
		g.running, g.ready = g.prepared, true
		return nil, g.announce(before)
	}
	return nil, nil
}

// Tells the RIB what differs from before.
func (g *gopher) announce(before map[string]uint64) error {
	origin := message{}.text(1, "gopher")
	if _, err := g.rib("RegisterOrigin", origin.number(4, 160).number(6, 2)); err != nil {
		return err
	}
	update := origin.number(3, 4)
	var sets, routes message
	count := uint64(0)
	net4 := func(text string) message {
		_, network, _ := net.ParseCIDR(text)
		ones, _ := network.Mask.Size()
		return message{}.octets(1, network.IP.To4()).number(2, uint64(ones))
	}
	for text, metric := range g.running {
		set := message{}.octets(1, message{}.number(1, 1)).number(2, metric) // discard
		sets = sets.octets(5, set)
		routes = routes.octets(6, message{}.octets(1, net4(text)).number(3, count))
		count++
	}
	for text := range before {
		if _, stays := g.running[text]; !stays {
			routes = routes.octets(6, message{}.octets(1, net4(text)).number(2, 1))
		}
	}
	if _, err := g.rib("UpdateRoutes", append(append(update, sets...), routes...)); err != nil {
		return err
	}
	if len(g.running) == 0 {
		origin = origin.number(3, 1)
	}
	_, err := g.rib("EndOfRefresh", origin)
	return err
}

func (g *gopher) rib(method string, request message) ([]byte, error) {
	found, err := g.ask("Resolve", message{}.text(1, "rib").text(2, "rib.v1.Rib").text(3, method))
	if err != nil {
		return nil, err
	}
	answer, err := parse(found)
	if err != nil {
		return nil, err
	}
	for _, octets := range answer.octets[3] {
		endpoint, err := parse(octets)
		if err != nil || endpoint.numbers[1] != 1 {
			continue
		}
		rib, err := dial(endpoint.text(2))
		if err != nil {
			return nil, err
		}
		defer rib.conn.Close()
		found, err := peer(rib.conn)
		if err != nil || uint64(found.Pid) != answer.numbers[6] || uint64(found.Uid) != answer.numbers[7] {
			return nil, errors.New("another process listens at the RIB's socket")
		}
		mine := credential(answer.octets[2][0], answer.numbers[5], g.principal)
		return rib.call(answer.text(1)+"/rib.v1.Rib/"+method, mine, request)
	}
	return nil, errors.New("the RIB has no Unix socket")
}

// Returns the path that a caller binds, if the Finder made the key for this caller.
func (g *gopher) bound(body []byte, caller *syscall.Ucred) string {
	if len(body) < 25 || len(body) < 25+int(body[24]) {
		return ""
	}
	key, grant, principal, path := body[:16], body[16:24], body[24:25+int(body[24])], body[25+int(body[24]):]
	mac := hmac.New(sha256.New, g.seal)
	mac.Write([]byte("sluice xrl key 2"))
	mac.Write(grant)
	who := binary.BigEndian.AppendUint32([]byte{1}, uint32(caller.Pid))
	mac.Write(binary.BigEndian.AppendUint32(who, caller.Uid))
	mac.Write(principal)
	mac.Write(path)
	if !hmac.Equal(mac.Sum(nil)[:16], key) || !g.methods[string(path)] {
		return ""
	}
	return filepath.Base(string(path))
}

// Serves one connection of somebody who calls.
func (g *gopher) receive(conn net.Conn) {
	defer conn.Close()
	caller, err := peer(conn)
	if err != nil {
		return
	}
	reader := bufio.NewReader(conn)
	bound := map[uint16]string{}
	for {
		f, err := readFrame(reader)
		if err != nil {
			return
		}
		switch f.kind {
		case bind:
			bound[f.method] = g.bound(f.body, caller)
		case call, callWithin:
			body := f.body
			if f.kind == callWithin {
				body = body[4:]
			}
			request, err := parse(body)
			var answer message
			if bound[f.method] == "" {
				conn.Write(frame{failure, f.sequence, 0, []byte{0, 7, 0, 0, 0, 0}}.octets())
				continue
			}
			if err == nil {
				answer, err = g.serve(bound[f.method], request)
			}
			if err != nil {
				text := append([]byte{0, application, 0, 0, 0, 1}, err.Error()...)
				conn.Write(frame{failure, f.sequence, 0, text}.octets())
				continue
			}
			conn.Write(frame{reply, f.sequence, 0, answer}.octets())
			if bound[f.method] == "Shutdown" {
				close(g.end)
			}
		}
	}
}

func run(class, folder string) error {
	digits := make([]byte, 32)
	if _, err := io.ReadFull(os.Stdin, digits); err != nil {
		return err
	}
	secret, err := hex.DecodeString(string(digits))
	if err != nil {
		return err
	}
	random := make([]byte, 8)
	rand.Read(random)
	path := filepath.Join(folder, "xrl", class, hex.EncodeToString(random)+".xrl")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return err
	}
	g := &gopher{class: class, methods: map[string]bool{}, running: map[string]uint64{}, end: make(chan bool)}
	if g.finder, err = dial(filepath.Join(folder, "finder.sock")); err != nil {
		return err
	}
	known, err := g.ask("Hello", message{}.octets(1, secret))
	if err != nil {
		return err
	}
	greeted, err := parse(known)
	if err != nil {
		return err
	}
	g.principal = greeted.text(1)
	methods := []string{"GetStatus", "Prepare", "Apply", "Abandon", "Shutdown"}
	offer := message{}.text(1, "common.v1.Component")
	for _, method := range methods {
		offer = offer.octets(2, message{}.text(1, method))
	}
	register := message{}.text(1, class).number(3, 1).octets(4, message{}.number(1, 1).text(2, path))
	answer, err := g.ask("Register", register.octets(5, offer).number(7, binary.BigEndian.Uint64(random)>>1))
	if err != nil {
		return err
	}
	registered, err := parse(answer)
	if err != nil {
		return err
	}
	g.instance = registered.text(1)
	g.seal = registered.octets[4][0]
	for _, method := range methods {
		g.methods[g.instance+"/common.v1.Component/"+method] = true
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.receive(conn)
		}
	}()
	if _, err := g.ask("Enable", message{}.text(1, g.instance)); err != nil {
		return err
	}
	<-g.end
	return os.Remove(path)
}

func main() {
	if len(os.Args) != 5 || os.Args[1] != "run" || os.Args[3] != "--run-dir" {
		fmt.Fprintln(os.Stderr, "usage: gopher run CLASS --run-dir FOLDER; the router manager starts it")
		os.Exit(2)
	}
	if err := run(os.Args[2], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "gopher:", err)
		os.Exit(1)
	}
}
