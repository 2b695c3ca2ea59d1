# The image of orphand: one static binary, no shell, not root.
#   docker build -t orphand .
ARG GO=golang:1.26
FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY internal internal
COPY pkg pkg
RUN CGO_ENABLED=0 GOWORK=off go build -trimpath -ldflags="-s -w" -o /orphand ./cmd/orphand

FROM scratch
# For the public certificate authorities; a pod's own is in its service account.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /orphand /orphand
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/orphand"]
CMD ["run"]
