package retention

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// Day and Week are the units that policies know beyond Go's. Neither follows a calendar.
const (
	Day  = 24 * time.Hour
	Week = 7 * Day
)

// errDuration tells what a duration looks like, for every text that is none.
var errDuration = errors.New("use a duration such as 90s, 12h, 1.5h, 7d or 2w, not negative and below 292 years")

// longestDuration bounds the text, so that a hostile annotation costs nothing.
const longestDuration = 64

// ParseDuration reads a duration that is not negative: Go's notation with d for days and w for weeks beside its units.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" || len(text) > longestDuration {
		return 0, errDuration
	}
	sum := new(big.Rat)
	for text != "" {
		digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
		number, rest := text[:digits], text[digits:]
		letters := strings.IndexAny(rest, "0123456789.")
		if letters < 0 {
			letters = len(rest)
		}
		unit, known := unitOf(rest[:letters])
		value, readable := new(big.Rat).SetString(number)
		if !known || !readable {
			return 0, errDuration
		}
		sum.Add(sum, value.Mul(value, new(big.Rat).SetInt64(int64(unit))))
		text = rest[letters:]
	}
	whole := new(big.Int).Quo(sum.Num(), sum.Denom())
	if !whole.IsInt64() {
		return 0, errDuration
	}
	return time.Duration(whole.Int64()), nil
}

func unitOf(text string) (time.Duration, bool) {
	switch text {
	case "ns":
		return time.Nanosecond, true
	case "us", "µs", "μs":
		return time.Microsecond, true
	case "ms":
		return time.Millisecond, true
	case "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	case "d":
		return Day, true
	case "w":
		return Week, true
	}
	return 0, false
}

// FormatDuration writes a duration the way a policy would: in whole weeks, days, or Go's notation without its zeros.
func FormatDuration(d time.Duration) string {
	switch {
	case d > 0 && d%Week == 0:
		return new(big.Int).SetInt64(int64(d/Week)).String() + "w"
	case d > 0 && d%Day == 0:
		return new(big.Int).SetInt64(int64(d/Day)).String() + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// later is the instant d after i. It ends at the last instant there is: no due time is ever before its finish time.
func later(i facts.Instant, d time.Duration) facts.Instant {
	if d > 0 && i > math.MaxInt64-facts.Instant(d) {
		return math.MaxInt64
	}
	return i.Add(d)
}
