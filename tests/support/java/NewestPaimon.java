// The newest release of Java Paimon, to be asked by the tests: one command a line as JSON, one answer a line.
//   {"op": "read", "table": PATH, "options": {…}, "equal": {COLUMN: TEXT}, "system": NAME}   -> {"rows": […]}
//   {"op": "columns", "table": PATH, "system": NAME}   -> {"rows": [[NAME, TYPE], …]}
//   {"op": "create", "table": PATH, "like": PATH, "primary_keys": […], "partition_keys": […], "options": {…}}
//   {"op": "write", "table": PATH, "from": PATH, "kind": "-D", "compact": true}     all rows of another table, one commit
//   {"op": "clean_orphans", "table": PATH, "older_ms": EPOCH_MS}      -> {"rows": [NUMBER OF FILES DELETED, …]}
//   {"op": "expire", "table": PATH, "retain_max": 1, "retain_min": 1}  -> {"rows": [NUMBER OF SNAPSHOTS, …]}
// The last two take "meanwhile": {"call": "list" or "delete", "path": PART, "run": COMMAND}: others who carry out that
// command after each such listing, or ahead of each such deletion; the answers, or errors as texts, follow in "rows".
// Rows are in the form of `tests/support/canonical.py`.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.FileStatus;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.DynamicBucketRowKeyExtractor;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.TypeUtils;

public class NewestPaimon {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final LocalFileIO io = LocalFileIO.create();
    private final IOManager disk;

    private NewestPaimon() throws Exception {
        disk = IOManager.create(Files.createTempDirectory("newest-paimon").toString());
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        NewestPaimon paimon = new NewestPaimon();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("rows", paimon.run(JSON.readTree(line)));
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            out.println(PaimonValues.json(answer));
        }
        paimon.disk.close();
        System.exit(0);
    }

    private List<Object> run(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "read":
                return read(command);
            case "columns":
                return columns(command);
            case "create":
                create(command);
                return List.of();
            case "write":
                write(command);
                return List.of();
            case "clean_orphans":
                return beside(command, table ->
                        new LocalOrphanFilesClean(table, command.get("older_ms").asLong()).clean().getDeletedFileCount());
            case "expire":
                return beside(command, table -> (long) table.newExpireSnapshots().config(retained(command)).expire());
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    // ── beside others ────────────────────────────────────────────────────────────────────────────

    private interface Action {
        long run(FileStoreTable table) throws Exception;
    }

    private static ExpireConfig retained(JsonNode command) {
        return ExpireConfig.builder()
                .snapshotRetainMax(command.get("retain_max").asInt())
                .snapshotRetainMin(command.get("retain_min").asInt())
                .snapshotTimeRetain(Duration.ZERO)
                .build();
    }

    private List<Object> beside(JsonNode command, Action action) throws Exception {
        List<Object> answers = new ArrayList<>();
        JsonNode meanwhile = command.path("meanwhile");
        BesideOthers store = new BesideOthers(meanwhile.path("call").asText(), meanwhile.path("path").asText(), () -> {
            try {
                answers.add(run(meanwhile.get("run")));
            } catch (Throwable error) {
                answers.add(error.toString());
            }
        });
        answers.add(0, action.run(FileStoreTableFactory.create(store, new Path(command.get("table").asText()))));
        return answers;
    }

    /** Lets others act at chosen calls; one call at a time, and not at calls of theirs. */
    private static class BesideOthers extends LocalFileIO {
        private final String call;
        private final String part;
        private final transient Runnable others;

        private BesideOthers(String call, String part, Runnable others) {
            this.call = call;
            this.part = part;
            this.others = others;
        }

        private synchronized void at(String call, Path path) {
            if (call.equals(this.call) && path.toString().contains(part)) {
                others.run();
            }
        }

        @Override
        public FileStatus[] listStatus(Path path) throws IOException {
            FileStatus[] found = super.listStatus(path);
            at("list", path);
            return found;
        }

        @Override
        public boolean delete(Path path, boolean recursive) throws IOException {
            at("delete", path);
            return super.delete(path, recursive);
        }
    }

    private FileStoreTable open(JsonNode command, String name) {
        FileStoreTable table = FileStoreTableFactory.create(io, new Path(command.get(name).asText()));
        return table.copy(PaimonValues.texts(command.get("options")));
    }

    // ── reading ──────────────────────────────────────────────────────────────────────────────────

    private Table asked(JsonNode command) {
        FileStoreTable table = open(command, "table");
        return command.has("system") ? SystemTableLoader.load(command.get("system").asText(), table) : table;
    }

    private List<Object> columns(JsonNode command) {
        List<Object> columns = new ArrayList<>();
        for (DataField field : asked(command).rowType().getFields()) {
            columns.add(List.of(field.name(), field.type().asSQLString()));
        }
        return columns;
    }

    private List<Object> read(JsonNode command) throws Exception {
        Table table = asked(command);
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        if (command.has("equal")) {
            List<Predicate> parts = new ArrayList<>();
            PredicateBuilder predicates = new PredicateBuilder(type);
            command.get("equal").fields().forEachRemaining(one -> {
                int index = type.getFieldIndex(one.getKey());
                Object literal = TypeUtils.castFromString(one.getValue().asText(), type.getTypeAt(index));
                parts.add(predicates.equal(index, literal));
            });
            builder = builder.withFilter(PredicateBuilder.and(parts));
        }
        List<Object> rows = new ArrayList<>();
        try (RecordReaderIterator<InternalRow> found =
                new RecordReaderIterator<>(
                        builder.newRead().executeFilter().withIOManager(disk).createReader(builder.newScan().plan()))) {
            while (found.hasNext()) {
                rows.add(PaimonValues.plain(found.next(), type));
            }
        }
        return rows;
    }

    // ── writing ──────────────────────────────────────────────────────────────────────────────────

    private void create(JsonNode command) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        Path like = new Path(command.get("like").asText());
        for (DataField field : FileStoreTableFactory.create(io, like).rowType().getFields()) {
            schema.column(field.name(), field.type());
        }
        schema.primaryKey(PaimonValues.list(command.get("primary_keys")));
        schema.partitionKeys(PaimonValues.list(command.get("partition_keys")));
        schema.options(PaimonValues.texts(command.get("options")));
        new SchemaManager(io, new Path(command.get("table").asText())).createTable(schema.build());
    }

    private void write(JsonNode command) throws Exception {
        FileStoreTable table = open(command, "table");
        FileStoreTable source = FileStoreTableFactory.create(io, new Path(command.get("from").asText()));
        RowKind kind = RowKind.fromShortString(command.path("kind").asText("+I"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        Map<BinaryRow, Set<Integer>> touched = new HashMap<>();
        HashBucketAssigner buckets = null;
        DynamicBucketRowKeyExtractor keys = null;
        if (table.bucketMode() == BucketMode.HASH_DYNAMIC) {
            long rowsPerBucket = table.coreOptions().dynamicBucketTargetRowNum();
            buckets =
                    new HashBucketAssigner(
                            table.snapshotManager(),
                            "tests",
                            table.store().newIndexFileHandler(),
                            1,
                            1,
                            0,
                            rowsPerBucket,
                            -1);
            keys = new DynamicBucketRowKeyExtractor(table.schema());
        }
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit();
                RecordReaderIterator<InternalRow> rows =
                        new RecordReaderIterator<>(
                                source.newReadBuilder().newRead().createReader(source.newReadBuilder().newScan().plan()))) {
            write.withIOManager(disk);
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                row.setRowKind(kind);
                BinaryRow partition = write.getPartition(row).copy();
                int bucket;
                if (buckets == null) {
                    bucket = write.getBucket(row);
                    write.write(row);
                } else {
                    keys.setRecord(row);
                    bucket = buckets.assign(partition, keys.trimmedPrimaryKey().hashCode());
                    write.write(row, bucket);
                }
                touched.computeIfAbsent(partition, any -> new TreeSet<>()).add(bucket);
            }
            if (command.path("compact").asBoolean()) {
                for (Map.Entry<BinaryRow, Set<Integer>> entry : touched.entrySet()) {
                    for (int bucket : entry.getValue()) {
                        write.compact(entry.getKey(), bucket, true);
                    }
                }
            }
            commit.commit(write.prepareCommit());
        }
    }
}
