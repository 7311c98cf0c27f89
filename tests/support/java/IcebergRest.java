// Iceberg's own REST catalog for tests, its tables in memory: `java -cp … org.apache.iceberg.rest.IcebergRest PORT-FILE TOKEN`.
// It listens on the loopback interface only, wants the token, writes its port into the file, and ends with its input.

package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.util.Pair;

public class IcebergRest {
    private static final RESTCatalogAdapter ADAPTER;

    static {
        InMemoryCatalog catalog = new InMemoryCatalog();
        catalog.initialize("tests", Map.of("warehouse", "/memory"));
        ADAPTER = new RESTCatalogAdapter(catalog);
    }

    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> answer(exchange, args[1]));
        server.start();
        Path port = Path.of(args[0]), part = Path.of(args[0] + ".part");
        Files.writeString(part, Integer.toString(server.getAddress().getPort()));
        Files.move(part, port);
        while (System.in.read() >= 0) {}
        System.exit(0);
    }

    private static void answer(HttpExchange exchange, String token) throws IOException {
        try {
            if (!("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("Authorization"))) {
                send(exchange, 401, error(401, "NotAuthorizedException", "no valid token"));
                return;
            }
            HTTPRequest.HTTPMethod method = HTTPRequest.HTTPMethod.valueOf(exchange.getRequestMethod());
            String path = exchange.getRequestURI().getRawPath().substring(1);
            Pair<RESTCatalogAdapter.Route, Map<String, String>> route = RESTCatalogAdapter.Route.from(method, path);
            if (route == null) {
                send(exchange, 404, error(404, "NoSuchRoute", path));
                return;
            }
            Object body = null;
            if (route.first().requestClass() != null) {
                body = RESTObjectMapper.mapper().readValue(exchange.getRequestBody(), route.first().requestClass());
            }
            HTTPRequest request = ADAPTER.buildRequest(method, path, query(exchange), Map.of(), body);
            ErrorResponse[] failed = new ErrorResponse[1];
            Object found = null;
            try {
                found = ADAPTER.execute(request, route.first().responseClass(), one -> failed[0] = one, headers -> {});
            } catch (RuntimeException e) {
                if (failed[0] == null) {
                    throw e;
                }
            }
            if (failed[0] != null) {
                send(exchange, failed[0].code(), failed[0]);
            } else {
                send(exchange, found == null ? 204 : 200, found);
            }
        } catch (RuntimeException | IOException e) {
            e.printStackTrace();
            send(exchange, 500, error(500, e.getClass().getSimpleName(), String.valueOf(e.getMessage())));
        }
    }

    private static ErrorResponse error(int code, String type, String message) {
        return ErrorResponse.builder().responseCode(code).withType(type).withMessage(message).build();
    }

    private static Map<String, String> query(HttpExchange exchange) {
        Map<String, String> found = new HashMap<>();
        String text = exchange.getRequestURI().getRawQuery();
        for (String part : text == null ? new String[0] : text.split("&")) {
            String[] pair = part.split("=", 2);
            found.put(pair[0], URLDecoder.decode(pair.length > 1 ? pair[1] : "", StandardCharsets.UTF_8));
        }
        return found;
    }

    private static void send(HttpExchange exchange, int code, Object body) throws IOException {
        boolean isEmpty = body == null || exchange.getRequestMethod().equals("HEAD");
        byte[] data = isEmpty ? new byte[0] : RESTObjectMapper.mapper().writeValueAsBytes(body);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(code, isEmpty ? -1 : data.length);
        if (!isEmpty) {
            exchange.getResponseBody().write(data);
        }
        exchange.close();
    }
}
