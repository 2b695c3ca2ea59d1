package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"k8s.io/apimachinery/pkg/types"
)

// The packed memory of a record, in base64: a version byte, the length of the 16-byte values of all UUIDs and these, one
// after the other, and a DEFLATE stream of everything else. Repeated strings are numbers. What is random is kept out of the
// stream, which would only grow by it: a job of 10,000 pods on as many machines stays under etcd's limit of 1.5 MiB per
// object.
const packVersion = 1

// maxUnpacked bounds what a packed memory may inflate to: a record that somebody else wrote must not take the daemon's
// memory.
const maxUnpacked = 64 << 20

// pack encodes the pods of a note.
func pack(pods []settle.PodNote) (string, error) {
	var stream bytes.Buffer
	z, err := flate.NewWriter(&stream, flate.BestCompression)
	if err != nil {
		return "", err
	}
	w := &packer{out: z, known: map[string]uint64{}}
	w.number(uint64(len(pods)))
	for i := range pods {
		w.pod(&pods[i])
	}
	if w.err != nil {
		return "", w.err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	raw := binary.AppendUvarint([]byte{packVersion}, uint64(len(w.ids)))
	raw = append(raw, w.ids...)
	return base64.StdEncoding.EncodeToString(append(raw, stream.Bytes()...)), nil
}

// unpack decodes what pack encoded. namespace is that of the record.
func unpack(text, namespace string) ([]settle.PodNote, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("memory is not base64: %w", err)
	}
	if len(raw) == 0 || raw[0] != packVersion {
		return nil, errors.New("memory is of a version that this orphand does not know")
	}
	size, read := binary.Uvarint(raw[1:])
	rest := raw[1+max(read, 0):]
	if read <= 0 || size > uint64(len(rest)) {
		return nil, errors.New("memory is cut off")
	}
	r := &unpacker{in: &oneByOne{r: io.LimitReader(flate.NewReader(bytes.NewReader(rest[size:])), maxUnpacked)}, ids: rest[:size], namespace: namespace}
	n := r.number()
	var pods []settle.PodNote
	for i := uint64(0); i < n && r.err == nil; i++ {
		pods = append(pods, r.pod())
	}
	if r.err != nil {
		return nil, fmt.Errorf("memory is damaged: %w", r.err)
	}
	return pods, nil
}

type packer struct {
	out   io.Writer
	ids   []byte
	known map[string]uint64
	last  [instants]int64
	err   error
	buf   [binary.MaxVarintLen64]byte
}

// instants is how many moments a pod has. Each is written in milliseconds, as the difference to that of the pod before:
// most of a job's pods go through the same at about the same time. Zero, for unknown, stays zero.
const instants = 10

func (w *packer) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

func (w *packer) number(n uint64) { w.bytes(w.buf[:binary.PutUvarint(w.buf[:], n)]) }

func (w *packer) signed(n int64) { w.bytes(w.buf[:binary.PutVarint(w.buf[:], n)]) }

func (w *packer) instant(i facts.Instant) { w.signed(millis(i)) }

func millis(i facts.Instant) int64 { return int64(i) / int64(time.Millisecond) }

func (w *packer) moments(list [instants]facts.Instant) {
	for k, i := range list {
		ms := millis(i)
		w.signed(ms - w.last[k])
		w.last[k] = ms
	}
}

// The forms of a string: one that was written before, a UUID, 32 hexadecimal digits, or its bytes.
const (
	formUUID  = 0
	formHex   = 1
	formBytes = 2
	formKnown = 3 // and from there on the number of the string that is meant
)

func (w *packer) text(s string) {
	if n, ok := w.known[s]; ok {
		w.number(formKnown + n)
		return
	}
	w.known[s] = uint64(len(w.known))
	if b, ok := hexBytes(s, true); ok {
		w.number(formUUID)
		w.ids = append(w.ids, b...)
		return
	}
	if b, ok := hexBytes(s, false); ok {
		w.number(formHex)
		w.ids = append(w.ids, b...)
		return
	}
	w.number(formBytes)
	w.number(uint64(len(s)))
	w.bytes([]byte(s))
}

// hexBytes is the 16 bytes of a lower-case UUID, or of 32 hexadecimal digits.
func hexBytes(s string, dashes bool) ([]byte, bool) {
	if dashes {
		if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
			return nil, false
		}
		s = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(s) != 32 || strings.ToLower(s) != s {
		return nil, false
	}
	b, err := hex.DecodeString(s)
	return b, err == nil
}

func (w *packer) flags(flags ...bool) {
	var n uint64
	for i, f := range flags {
		if f {
			n |= 1 << i
		}
	}
	w.number(n)
}

func (w *packer) pod(n *settle.PodNote) {
	h, f := n.History, n.History.Pod
	w.text(f.Name)
	w.text(string(f.UID))
	w.text(f.Node)
	w.text(string(f.JobSetUID))
	w.text(f.JobSetName)
	w.text(f.RestartAttempt)
	w.text(string(f.JobUID))
	w.text(f.JobName)
	w.text(f.Index)
	w.text(string(n.Said.Verdict))
	w.text(string(n.Said.Reason))
	w.flags(f.Mirror, f.Inert)
	w.number(uint64(h.Removal))
	w.moments([instants]facts.Instant{n.Since, h.Seen, h.BoundSeen, h.RemovedAt, h.Asked, h.GraceEnds, h.Anchored, f.Started, f.Scheduled, f.Deletion})
	// A kubelet that hears of the deletion only after a restart of this process has the longer of the two to give.
	w.number(uint64(max(f.SpecGrace, int64(h.Grace/time.Second))))
	w.number(uint64(len(h.Runs)))
	for i := range h.Runs {
		r := &h.Runs[i]
		w.flags(r.Before, r.Proof != nil, r.Node == f.Node, r.TaintStale, r.TakenOver, r.Unsure, r.Watched)
		if r.Node != f.Node {
			w.text(r.Node)
		}
		w.text(string(r.NodeUID))
		w.text(r.Machine.SystemUUID)
		w.text(r.Machine.MachineID)
		w.text(r.Boot)
		w.instant(r.Absent)
		if p := r.Proof; p != nil {
			w.text(string(p.Reason))
			w.text(p.Source.Kind)
			w.text(p.Source.Namespace)
			w.text(p.Source.Name)
			w.text(string(p.Source.UID))
			w.text(p.By)
			w.text(p.Note)
			w.flags(p.Weak)
			w.instant(p.At)
		}
	}
}

// oneByOne makes an io.ByteReader of a reader.
type oneByOne struct {
	r io.Reader
	b [1]byte
}

func (o *oneByOne) Read(p []byte) (int, error) { return o.r.Read(p) }

func (o *oneByOne) ReadByte() (byte, error) {
	_, err := io.ReadFull(o.r, o.b[:])
	return o.b[0], err
}

type unpacker struct {
	in        *oneByOne
	ids       []byte
	namespace string
	known     []string
	last      [instants]int64
	err       error
}

func (r *unpacker) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *unpacker) number() uint64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		r.fail(err)
	}
	return n
}

func (r *unpacker) signed() int64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(r.in)
	if err != nil {
		r.fail(err)
	}
	return n
}

func (r *unpacker) instant() facts.Instant {
	return facts.Instant(r.signed() * int64(time.Millisecond))
}

const maxText = 4096

func (r *unpacker) text() string {
	form := r.number()
	if r.err != nil {
		return ""
	}
	if form >= formKnown {
		if form-formKnown >= uint64(len(r.known)) {
			r.fail(errors.New("a string that was never written"))
			return ""
		}
		return r.known[form-formKnown]
	}
	var b []byte
	if form == formBytes {
		size := r.number()
		if size > maxText {
			r.fail(fmt.Errorf("a string of %d bytes", size))
			return ""
		}
		b = make([]byte, size)
		if _, err := io.ReadFull(r.in, b); err != nil {
			r.fail(err)
			return ""
		}
	} else if b = r.ids[:min(16, len(r.ids))]; len(b) < 16 {
		r.fail(io.ErrUnexpectedEOF)
		return ""
	} else {
		r.ids = r.ids[16:]
	}
	var s string
	switch form {
	case formUUID:
		h := hex.EncodeToString(b)
		s = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	case formHex:
		s = hex.EncodeToString(b)
	default:
		s = string(b)
	}
	r.known = append(r.known, s)
	return s
}

func (r *unpacker) flag(n uint64, i int) bool { return n&(1<<i) != 0 }

func (r *unpacker) uid() types.UID { return types.UID(r.text()) }

func (r *unpacker) pod() settle.PodNote {
	f := &facts.Pod{}
	h := &nodeproof.History{Pod: f}
	n := settle.PodNote{History: h}
	f.Namespace, f.Name, f.UID, f.Node = r.namespace, r.text(), r.uid(), r.text()
	f.JobSetUID, f.JobSetName, f.RestartAttempt = r.uid(), r.text(), r.text()
	f.JobUID, f.JobName, f.Index = r.uid(), r.text(), r.text()
	n.Said = nodeproof.Pair{Verdict: nodeproof.Verdict(r.text()), Reason: nodeproof.Reason(r.text())}
	flags := r.number()
	f.Mirror, f.Inert = r.flag(flags, 0), r.flag(flags, 1)
	switch removal := r.number(); removal {
	case uint64(nodeproof.Present), uint64(nodeproof.Deleted), uint64(nodeproof.Unseen):
		h.Removal = nodeproof.Removal(removal)
	default:
		r.fail(fmt.Errorf("removal %d", removal))
	}
	for k, at := range [instants]*facts.Instant{&n.Since, &h.Seen, &h.BoundSeen, &h.RemovedAt, &h.Asked, &h.GraceEnds, &h.Anchored, &f.Started, &f.Scheduled, &f.Deletion} {
		r.last[k] += r.signed()
		*at = facts.Instant(r.last[k] * int64(time.Millisecond))
	}
	f.SpecGrace = int64(r.number())
	if h.GraceEnds.Known() {
		h.Grace = time.Duration(f.SpecGrace) * time.Second
	}
	runs := r.number()
	for i := uint64(0); i < runs && r.err == nil; i++ {
		flags := r.number()
		run := nodeproof.Run{Before: r.flag(flags, 0), TaintStale: r.flag(flags, 3), TakenOver: r.flag(flags, 4), Unsure: r.flag(flags, 5), Watched: r.flag(flags, 6), Node: f.Node}
		if !r.flag(flags, 2) {
			run.Node = r.text()
		}
		run.NodeUID, run.Machine, run.Boot = r.uid(), facts.Machine{SystemUUID: r.text(), MachineID: r.text()}, r.text()
		run.Absent = r.instant()
		if r.flag(flags, 1) {
			p := &nodeproof.Evidence{Reason: nodeproof.Reason(r.text()), Source: facts.Ref{Kind: r.text(), Namespace: r.text(), Name: r.text(), UID: r.uid()},
				By: r.text(), Note: r.text(), Machine: run.Machine, Boot: run.Boot}
			p.Weak = r.flag(r.number(), 0)
			p.At = r.instant()
			run.Proof = p
		}
		h.Runs = append(h.Runs, run)
	}
	return n
}
