"""Ready-made proxies before two servers, as processes: what others offer of sending each request to both.

    nginx      `mirror`: the answer is one server's; the other gets a copy, whose answer is thrown away
    Envoy      `request_mirror_policies`: the same
    HAProxy    mirrors nothing by itself: it passes each request to one of the two, in turns

None of them stores a request, keeps both servers in one order, or brings one up to date that was away. Each runs with one worker.
"""

from __future__ import annotations

from pathlib import Path

from examples.free_port import free_port
from tests.bench.child import program
from tests.bench.peers.domain import Part

NGINX, HAPROXY, ENVOY = "nginx mirror", "HAProxy", "Envoy mirror"
_PATHS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def mirrors(folder: Path, servers: list[Part]) -> dict[str, tuple[type[_Mirror], Path, list[Part]]]:
    """What can be started, by its name: each may be missing, and says so then."""
    return {
        name: (kind, folder / name.replace(" ", "-"), servers)
        for name, kind in ((NGINX, _Nginx), (HAPROXY, _HaProxy), (ENVOY, _Envoy))
    }


class _Mirror(Part):
    """Its configuration is written before it is started. CannotRun if the program is not there."""

    def __init__(self, folder: Path, servers: list[Part]) -> None:
        folder.mkdir(parents=True)
        port = free_port()
        file = folder / "configuration"
        file.write_text(self.configured(folder, port, [each.port for each in servers]))
        super().__init__(folder, [], port)
        self._command = self.command(folder, file)

    def configured(self, folder: Path, port: int, servers: list[int]) -> str:
        raise NotImplementedError

    def command(self, folder: Path, file: Path) -> list[str]:
        raise NotImplementedError


class _Nginx(_Mirror):
    def configured(self, folder: Path, port: int, servers: list[int]) -> str:
        paths = "".join(f"{kind}_temp_path {folder};" for kind in _PATHS)
        first, second = (
            f"upstream {name} {{ server 127.0.0.1:{server}; keepalive 64; }}"
            for name, server in zip(("first", "second"), servers, strict=True)
        )
        kept = 'proxy_http_version 1.1; proxy_set_header connection "";'
        return f"""daemon off; master_process off; pid {folder}/pid; error_log stderr error; events {{}}
http {{ access_log off; keepalive_requests 1000000; {paths} {first} {second}
server {{ listen 127.0.0.1:{port}; {kept}
location / {{ mirror /mirror; proxy_pass http://first; }}
location = /mirror {{ internal; proxy_pass http://second$request_uri; }} }} }}
"""

    def command(self, folder: Path, file: Path) -> list[str]:
        return [program("nginx", "/usr/sbin"), "-p", str(folder), "-c", str(file)]


class _HaProxy(_Mirror):
    def configured(self, folder: Path, port: int, servers: list[int]) -> str:
        named = "\n".join(f"    server s{server} 127.0.0.1:{server}" for server in servers)
        return f"""global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
listen all
    bind 127.0.0.1:{port}
    balance roundrobin
{named}
"""

    def command(self, folder: Path, file: Path) -> list[str]:
        return [program("haproxy", "/usr/sbin"), "-db", "-f", str(file)]


class _Envoy(_Mirror):
    def configured(self, folder: Path, port: int, servers: list[int]) -> str:
        clusters = ",".join(
            f"{{name: s{number}, type: STATIC, load_assignment: {{cluster_name: s{number}, endpoints: [{{lb_endpoints: "
            f"[{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {server}}}}}}}}}]}}]}}}}"
            for number, server in enumerate(servers)
        )
        manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
        router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
        return f"""static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {manager}
          stat_prefix: all
          http_filters: [{{name: envoy.filters.http.router, typed_config: {{"@type": {router}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route: {{cluster: s0, request_mirror_policies: [{{cluster: s1}}]}}
  clusters: [{clusters}]
"""

    def command(self, folder: Path, file: Path) -> list[str]:
        file = file.rename(file.with_suffix(".yaml"))
        return [program("envoy"), "-c", str(file), "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
