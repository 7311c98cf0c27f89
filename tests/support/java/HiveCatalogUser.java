// Java Paimon's own Hive catalog, to be asked by the tests: `java -cp … HiveCatalogUser OPTIONS`.
// OPTIONS are `key=value` with `;` between them. Reads a command a line, `COMMAND ARG …`, and prints a line for each.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.hive.HiveCatalog;
import org.apache.paimon.hive.HiveCatalogLock;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;

public class HiveCatalogUser {
    private static HiveCatalog catalog;
    private static Options options;

    public static void main(String[] args) throws Exception {
        options = new Options();
        for (String option : args[0].split(";")) {
            String[] pair = option.split("=", 2);
            options.set(pair[0], pair[1]);
        }
        catalog = (HiveCatalog) CatalogFactory.createCatalog(CatalogContext.create(options));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "), input);
            } catch (Throwable e) {
                e.printStackTrace();
                answer = "error " + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    private static String answer(String[] words, BufferedReader input) throws Exception {
        switch (words[0]) {
            case "databases":
                return new TreeSet<>(catalog.listDatabases()).toString();
            case "tables":
                return new TreeSet<>(catalog.listTables(words[1])).toString();
            case "create-database":
                catalog.createDatabase(words[1], false, Collections.singletonMap("owner", "java"));
                return "done";
            case "create":
                catalog.createTable(name(words[1]), schema(Arrays.asList(words).subList(2, words.length)), false);
                return "done";
            case "write":
                write(words[1], words[2]);
                return "done";
            case "read":
                return read(words[1]);
            case "entry":
                return entry(words[1]);
            case "partitions":
                return partitions(words[1]);
            case "add-column":
                catalog.alterTable(name(words[1]), SchemaChange.addColumn(words[2], DataTypes.INT()), false);
                return "done";
            case "set":
                catalog.alterTable(name(words[1]), SchemaChange.setOption(words[2], words[3]), false);
                return "done";
            case "tag":
                ((FileStoreTable) catalog.getTable(name(words[1]))).createTag(words[2]);
                return "done";
            case "untag":
                ((FileStoreTable) catalog.getTable(name(words[1]))).deleteTag(words[2]);
                return "done";
            case "rename":
                catalog.renameTable(name(words[1]), name(words[2]), false);
                return "done";
            case "drop":
                catalog.dropTable(name(words[1]), false);
                return "done";
            case "lock":
                // Holds the commit lock until the next line.
                System.out.println(lock(words, 60_000, () -> {
                    System.out.println("held");
                    return input.readLine();
                }));
                return "released";
            case "try":
                try {
                    return lock(words, 500, () -> "taken");
                } catch (RuntimeException e) {
                    return "refused";
                }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String lock(String[] words, long timeoutMs, java.util.concurrent.Callable<String> within)
            throws Exception {
        return new HiveCatalogLock(
                        HiveCatalogLock.createClients(
                                HiveCatalog.createHiveConf(CatalogContext.create(options)),
                                options,
                                "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"),
                        100,
                        timeoutMs)
                .runWithLock(words[1], words[2], within);
    }

    private static Identifier name(String text) {
        return Identifier.fromString(text);
    }

    /** A keyed table; words are options. With a partition column `dt` if there is the option `partitioned=true`. */
    private static Schema schema(List<String> words) {
        Schema.Builder builder = Schema.newBuilder();
        boolean partitioned = words.contains("partitioned=true");
        if (partitioned) {
            builder.column("dt", DataTypes.STRING().notNull()).partitionKeys("dt");
        }
        builder.column("id", DataTypes.BIGINT().notNull(), "the key").column("v", DataTypes.STRING());
        builder.primaryKey(partitioned ? List.of("dt", "id") : List.of("id")).comment("of java");
        for (String word : words) {
            String[] pair = word.split("=", 2);
            if (!pair[0].equals("partitioned")) {
                builder.option(pair[0], pair[1]);
            }
        }
        return builder.build();
    }

    /** Rows as `dt/id/v,…` or `id/v,…`. */
    private static void write(String table, String rows) throws Exception {
        BatchWriteBuilder builder = catalog.getTable(name(table)).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (String row : rows.split(",")) {
                String[] cells = row.split("/");
                int at = cells.length - 2;
                GenericRow out = new GenericRow(cells.length);
                if (at > 0) {
                    out.setField(0, BinaryString.fromString(cells[0]));
                }
                out.setField(at, Long.parseLong(cells[at]));
                out.setField(at + 1, BinaryString.fromString(cells[at + 1]));
                write.write(out);
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static String read(String table) throws Exception {
        ReadBuilder builder = catalog.getTable(name(table)).newReadBuilder();
        int columns = catalog.getTable(name(table)).rowType().getFieldCount();
        org.apache.paimon.data.InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[columns];
        for (int i = 0; i < columns; i++) {
            getters[i] = InternalRow.createFieldGetter(catalog.getTable(name(table)).rowType().getTypeAt(i), i);
        }
        List<String> rows = new ArrayList<>();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(
                    row -> {
                        List<String> cells = new ArrayList<>();
                        for (InternalRow.FieldGetter getter : getters) {
                            cells.add(String.valueOf(getter.getFieldOrNull(row)));
                        }
                        rows.add(String.join("/", cells));
                    });
        }
        Collections.sort(rows);
        return String.join(",", rows);
    }

    /** All that an entry says but times, as one line. */
    private static String entry(String table) throws Exception {
        Table entry = catalog.getHmsTable(name(table));
        Map<String, String> parameters = new TreeMap<>(entry.getParameters());
        parameters.keySet().removeIf(key -> key.startsWith("transient_") || key.startsWith("last_modified"));
        parameters.keySet().removeAll(List.of("numFiles", "totalSize", "COLUMN_STATS_ACCURATE", "bucketing_version"));
        return String.join(
                " | ",
                entry.getTableType(),
                entry.getOwner(),
                Integer.toString(entry.getRetention()),
                fields(entry.getSd().getCols()),
                fields(entry.getPartitionKeys()),
                parameters.toString(),
                entry.getSd().getLocation(),
                entry.getSd().getInputFormat(),
                entry.getSd().getOutputFormat(),
                entry.getSd().getSerdeInfo().getSerializationLib(),
                String.valueOf(entry.getSd().getSerdeInfo().getParameters()));
    }

    private static String fields(List<FieldSchema> fields) {
        List<String> texts = new ArrayList<>();
        for (FieldSchema field : fields) {
            texts.add(field.getName() + " " + field.getType() + " " + field.getComment());
        }
        return texts.toString();
    }

    private static String partitions(String table) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Partition partition : catalog.listPartitionsFromHms(name(table))) {
            texts.add(partition.getValues() + " " + partition.getSd().getLocation());
        }
        Collections.sort(texts);
        return texts.toString();
    }
}
