// Package alerts is the table of alerts, from which the rules for Prometheus and Loki, the filters for plain logs and the
// runbooks are made.
package alerts
