// Java Paimon's own JDBC catalog, to be asked by the tests: `java -cp … JdbcCatalogUser.java OPTIONS COMMAND ARGS`.
// OPTIONS are `key=value` with `;` between them. Prints one line per answer.

import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.jdbc.JdbcCatalog;
import org.apache.paimon.jdbc.JdbcCatalogLock;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.types.DataTypes;

public class JdbcCatalogUser {
    public static void main(String[] args) throws Exception {
        Options options = new Options();
        for (String option : args[0].split(";")) {
            String[] pair = option.split("=", 2);
            options.set(pair[0], pair[1]);
        }
        JdbcCatalog catalog = (JdbcCatalog) CatalogFactory.createCatalog(CatalogContext.create(options));
        switch (args[1]) {
            case "list":
                for (String database : new TreeSet<>(catalog.listDatabases())) {
                    System.out.println(database + " " + new TreeSet<>(catalog.listTables(database)));
                }
                break;
            case "create":
                catalog.createDatabase(args[2], true, Collections.singletonMap("owner", "java"));
                catalog.createTable(Identifier.create(args[2], args[3]), schema(), false);
                break;
            case "rename":
                catalog.renameTable(
                        Identifier.create(args[2], args[3]), Identifier.create(args[2], args[4]), false);
                break;
            case "drop":
                catalog.dropTable(Identifier.create(args[2], args[3]), false);
                break;
            case "lock":
                // Holds the commit lock until its standard input ends.
                String key = options.getString("catalog-key", "jdbc");
                new JdbcCatalogLock(catalog.getConnections(), key, 100, 60_000)
                        .runWithLock(
                                args[2],
                                args[3],
                                () -> {
                                    System.out.println("held");
                                    return System.in.read();
                                });
                break;
            case "try":
                try {
                    new JdbcCatalogLock(
                                    catalog.getConnections(), options.getString("catalog-key", "jdbc"), 100, 500)
                            .runWithLock(args[2], args[3], () -> null);
                    System.out.println("taken");
                } catch (RuntimeException e) {
                    System.out.println("refused");
                }
                break;
            default:
                throw new IllegalArgumentException(args[1]);
        }
        System.out.println("done");
        System.exit(0);
    }

    private static Schema schema() {
        return Schema.newBuilder()
                .column("id", DataTypes.BIGINT().notNull())
                .column("v", DataTypes.STRING())
                .primaryKey(List.of("id"))
                .option("bucket", "1")
                .build();
    }
}
