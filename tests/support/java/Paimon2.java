// Java Paimon 2 for the tests: one command a line as JSON, one answer a line.
//
// The commands and answers of the Java reference of Paimon 0.9 are understood here as well, as far as random histories
// and comparisons of tables use them: create_table, alter, write, compact, delete_positions, create_tag, rollback,
// expire, read, changelog, files, index, check, schema. "columns" of a write are those that its rows have; with
// data evolution the others stay as they are, from "first_row_id" on if that is given.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.KeyValueFileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BlobPlaceholder;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.manifest.ManifestFile;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.manifest.ManifestList;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.DynamicBucketRowKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

public class Paimon2 {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long BATCH = BatchWriteBuilder.COMMIT_IDENTIFIER;

    private final LocalFileIO io = LocalFileIO.create();
    private final String folder;

    private Paimon2() throws Exception {
        folder = Files.createTempDirectory("paimon-2").toString();
    }

    /** One for each reader and writer: the first that closes it deletes the directories in it. */
    private IOManager disk() {
        return IOManager.create(folder);
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Paimon2 paimon = new Paimon2();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                paimon.run(JSON.readTree(line), answer);
            } catch (Throwable error) {
                error.printStackTrace();
                answer.clear();
                answer.put("error", message(error));
            }
            out.println(PaimonValues.json(answer));
        }
        System.exit(0);
    }

    private static String message(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = error; one != null && text.length() < 2000; one = one.getCause()) {
            text.append(text.length() > 0 ? " <- " : "");
            text.append(one.getClass().getSimpleName()).append(": ").append(one.getMessage());
        }
        return text.toString();
    }

    private void run(JsonNode command, Map<String, Object> answer) throws Exception {
        switch (command.get("op").asText()) {
            case "ping":
                break;
            case "create_table":
                create(command);
                break;
            case "alter":
                alter(command);
                break;
            case "write":
                write(command);
                break;
            case "stream":
                stream(command);
                break;
            case "compact":
                compact(command);
                break;
            case "delete_positions":
                deletePositions(command);
                break;
            case "create_tag":
                open(command).createTag(command.get("tag").asText());
                break;
            case "create_branch":
                open(command).createBranch(command.get("name").asText());
                break;
            case "rollback":
                open(command).rollbackTo(command.get("snapshot").asLong());
                break;
            case "expire":
                open(command).newExpireSnapshots().config(retained(command)).expire();
                break;
            case "read":
                read(command, answer);
                break;
            case "changelog":
                changelog(command, answer);
                break;
            case "files":
                answer.put("files", files(command));
                break;
            case "index":
                answer.put("entries", index(command));
                break;
            case "check":
                answer.put("problems", check(command));
                break;
            case "schema":
                answer.put("schema", JSON.readTree(open(command).schema().toString()));
                break;
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    private FileStoreTable onBranch(String path, String branch) {
        if (branch.equals("main")) {
            return FileStoreTableFactory.create(io, new Path(path));
        }
        Options at = new Options();
        at.set(CoreOptions.PATH, path);
        at.set(CoreOptions.BRANCH, branch);
        return FileStoreTableFactory.create(io, at);
    }

    private FileStoreTable open(JsonNode command) {
        FileStoreTable table = onBranch(command.get("table").asText(), command.path("branch").asText("main"));
        Map<String, String> options = PaimonValues.texts(command.get("options"));
        return options.isEmpty() ? table : table.copy(options);
    }

    private static ExpireConfig retained(JsonNode command) {
        return ExpireConfig.builder()
                .snapshotRetainMax(command.path("retain_max").asInt(1))
                .snapshotRetainMin(command.path("retain_min").asInt(1))
                .snapshotTimeRetain(Duration.ZERO)
                .build();
    }

    // ── schemas ──────────────────────────────────────────────────────────────────────────────────

    private void create(JsonNode command) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode field : command.get("fields")) {
            schema.column(field.get(0).asText(), PaimonValues.type(field.get(1).asText()));
        }
        schema.primaryKey(PaimonValues.list(command.get("primary_keys")));
        schema.partitionKeys(PaimonValues.list(command.get("partition_keys")));
        schema.options(PaimonValues.texts(command.get("options")));
        new SchemaManager(io, new Path(command.get("table").asText())).createTable(schema.build());
    }

    private void alter(JsonNode command) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : command.get("changes")) {
            changes.add(change(change, change.path("name").asText()));
        }
        String branch = command.path("branch").asText("main");
        new SchemaManager(io, new Path(command.get("table").asText()), branch).commitChanges(changes);
    }

    private static SchemaChange change(JsonNode change, String name) {
        switch (change.get("change").asText()) {
            case "set_option":
                return SchemaChange.setOption(name, change.get("value").asText());
            case "remove_option":
                return SchemaChange.removeOption(name);
            case "add":
                return SchemaChange.addColumn(
                        name, PaimonValues.type(change.get("type").asText()), null, move(name, change));
            case "rename":
                return SchemaChange.renameColumn(name, change.get("to").asText());
            case "drop":
                return SchemaChange.dropColumn(name);
            case "type":
                return SchemaChange.updateColumnType(name, PaimonValues.type(change.get("type").asText()), true);
            case "nullable":
                return SchemaChange.updateColumnNullability(name, change.get("value").booleanValue());
            case "move":
                return SchemaChange.updateColumnPosition(move(name, change));
            default:
                throw new IllegalArgumentException(change.toString());
        }
    }

    private static SchemaChange.Move move(String name, JsonNode change) {
        if (change.path("first").asBoolean()) {
            return SchemaChange.Move.first(name);
        }
        return change.has("after") ? SchemaChange.Move.after(name, change.get("after").asText()) : null;
    }

    // ── writing ──────────────────────────────────────────────────────────────────────────────────

    private interface Sink {
        void put(InternalRow row) throws Exception;
    }

    private void write(JsonNode command) throws Exception {
        FileStoreTable table = open(command);
        String user = UUID.randomUUID().toString();
        boolean kinds = command.path("kinds").asBoolean();
        RowType type = table.rowType();
        List<CommitMessage> messages;
        try (TableWriteImpl<?> write = table.newWrite(user)) {
            write.withIOManager(disk());
            if (command.has("overwrite")) {
                write.withIgnorePreviousFiles(true);
            }
            if (command.has("columns")) {
                type = type.project(PaimonValues.list(command.get("columns")));
                write.withWriteType(type);
            }
            Sink sink = sink(table, write, user);
            for (JsonNode values : command.get("rows")) {
                GenericRow row = PaimonValues.row(values, type, kinds ? 1 : 0);
                setPlaceholders(row, values, type);
                row.setRowKind(kinds ? RowKind.fromShortString(values.get(0).asText()) : RowKind.INSERT);
                sink.put(row);
            }
            messages = write.prepareCommit(true, BATCH);
        }
        if (command.has("first_row_id")) {
            messages = placed(messages, command.get("first_row_id").asLong());
        }
        commit(table, user, messages, command);
    }

    /** A streaming writer of a table: it keeps its view of the files, and compacts, from one commit to the next. */
    private final Map<String, TableWriteImpl<?>> streams = new HashMap<>();

    private void stream(JsonNode command) throws Exception {
        FileStoreTable table = open(command);
        String path = command.get("table").asText();
        if (!streams.containsKey(path)) {
            TableWriteImpl<?> opened = table.newWrite("stream");
            opened.withIOManager(disk());
            streams.put(path, opened);
        }
        TableWriteImpl<?> write = streams.get(path);
        for (JsonNode values : command.get("rows")) {
            write.write(PaimonValues.row(values, table.rowType(), 0));
        }
        long checkpoint = command.get("checkpoint").asLong();
        try (TableCommitImpl commit = table.newCommit("stream")) {
            commit.commit(checkpoint, write.prepareCommit(true, checkpoint));
        }
    }

    /** A BLOB that is given as the text "placeholder" is one: its value is in an older file. */
    private static void setPlaceholders(GenericRow row, JsonNode values, RowType type) {
        for (int field = 0; field < type.getFieldCount(); field++) {
            boolean blob = type.getTypeAt(field).getTypeRoot() == DataTypeRoot.BLOB;
            if (blob && values.get(field).asText().equals("placeholder")) {
                row.setField(field, BlobPlaceholder.INSTANCE);
            }
        }
    }

    /** The messages, their new files for the rows of existing ids; files of a BLOB column follow each other. */
    private static List<CommitMessage> placed(List<CommitMessage> messages, long first) {
        List<CommitMessage> placed = new ArrayList<>();
        for (CommitMessage message : messages) {
            CommitMessageImpl one = (CommitMessageImpl) message;
            List<DataFileMeta> files = new ArrayList<>();
            Map<String, Long> next = new HashMap<>();
            for (DataFileMeta file : one.newFilesIncrement().newFiles()) {
                boolean blob = file.fileName().endsWith(".blob");
                long id = blob ? next.getOrDefault(file.writeCols().get(0), first) : first;
                if (blob) {
                    next.put(file.writeCols().get(0), id + file.rowCount());
                }
                files.add(file.assignFirstRowId(id));
            }
            DataIncrement increment =
                    new DataIncrement(files, Collections.emptyList(), Collections.emptyList());
            placed.add(new CommitMessageImpl(
                    one.partition(), one.bucket(), one.totalBuckets(), increment, one.compactIncrement()));
        }
        return placed;
    }

    private static void commit(FileStoreTable table, String user, List<CommitMessage> messages, JsonNode command)
            throws Exception {
        try (TableCommitImpl commit = table.newCommit(user)) {
            commit.ignoreEmptyCommit(true);
            if (command.has("overwrite")) {
                commit.withOverwrite(PaimonValues.texts(command.get("overwrite")));
            }
            commit.commit(BATCH, messages);
        }
    }

    private Sink sink(FileStoreTable table, TableWriteImpl<?> write, String user) throws Exception {
        if (table.bucketMode() == BucketMode.KEY_DYNAMIC) {
            return new Moving(table, write);
        }
        if (table.bucketMode() != BucketMode.HASH_DYNAMIC) {
            return write::write;
        }
        HashBucketAssigner buckets = new HashBucketAssigner(
                table.snapshotManager(),
                user,
                table.store().newIndexFileHandler(),
                1,
                1,
                0,
                table.coreOptions().dynamicBucketTargetRowNum(),
                -1);
        DynamicBucketRowKeyExtractor keys = new DynamicBucketRowKeyExtractor(table.schema());
        return row -> {
            keys.setRecord(row);
            write.write(row, buckets.assign(keys.partition(), keys.trimmedPrimaryKey().hashCode()));
        };
    }

    /** Rows whose keys may move to another partition: stands in for the library's index of all keys. */
    private static final class Moving implements Sink {
        private final FileStoreTable table;
        private final TableWriteImpl<?> write;
        private final DynamicBucketRowKeyExtractor keys;
        private final Map<BinaryRow, BinaryRow> partitions = new HashMap<>();
        private final Map<BinaryRow, Integer> buckets = new HashMap<>();
        private final Map<BinaryRow, TreeMap<Integer, Integer>> sizes = new HashMap<>();

        private Moving(FileStoreTable table, TableWriteImpl<?> write) throws Exception {
            this.table = table;
            this.write = write;
            this.keys = new DynamicBucketRowKeyExtractor(table.schema());
            ReadBuilder builder = table.newReadBuilder();
            for (Split split : builder.newScan().plan().splits()) {
                DataSplit data = (DataSplit) split;
                try (RecordReaderIterator<InternalRow> rows =
                        new RecordReaderIterator<>(builder.newRead().createReader(split))) {
                    while (rows.hasNext()) {
                        keys.setRecord(rows.next());
                        place(keys.trimmedPrimaryKey().copy(), data.partition().copy(), data.bucket());
                    }
                }
            }
        }

        private void place(BinaryRow key, BinaryRow partition, int bucket) {
            partitions.put(key, partition);
            buckets.put(key, bucket);
            sizes.computeIfAbsent(partition, any -> new TreeMap<>()).merge(bucket, 1, Integer::sum);
        }

        @Override
        public void put(InternalRow row) throws Exception {
            keys.setRecord(row);
            BinaryRow partition = keys.partition().copy();
            BinaryRow key = keys.trimmedPrimaryKey().copy();
            BinaryRow before = partitions.get(key);
            if (before != null && !before.equals(partition)) {
                switch (table.coreOptions().mergeEngine()) {
                    case FIRST_ROW:
                        return;
                    case DEDUPLICATE:
                        write.write(moved(row, before, RowKind.DELETE), buckets.get(key));
                        sizes.get(before).merge(buckets.get(key), -1, Integer::sum);
                        before = null;
                        break;
                    default:
                        write.write(moved(row, before, row.getRowKind()), buckets.get(key));
                        return;
                }
            }
            if (before == null) {
                long most = table.coreOptions().dynamicBucketTargetRowNum();
                TreeMap<Integer, Integer> there = sizes.computeIfAbsent(partition, any -> new TreeMap<>());
                int bucket = 0;
                while (there.getOrDefault(bucket, 0) >= most) {
                    bucket++;
                }
                place(key, partition, bucket);
            }
            write.write(row, buckets.get(key));
        }

        private InternalRow moved(InternalRow row, BinaryRow partition, RowKind kind) {
            RowType type = table.rowType();
            GenericRow moved = new GenericRow(type.getFieldCount());
            for (int i = 0; i < type.getFieldCount(); i++) {
                int at = table.partitionKeys().indexOf(type.getFieldNames().get(i));
                Object value = at < 0
                        ? InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row)
                        : InternalRow.createFieldGetter(type.getTypeAt(i), at).getFieldOrNull(partition);
                moved.setField(i, value);
            }
            moved.setRowKind(kind);
            return moved;
        }
    }

    private void compact(JsonNode command) throws Exception {
        FileStoreTable table = open(command).copy(Collections.singletonMap("write-only", "false"));
        String user = UUID.randomUUID().toString();
        boolean full = command.path("full").asBoolean(true);
        List<CommitMessage> messages = new ArrayList<>();
        if (table.coreOptions().dataEvolutionEnabled()) {
            Snapshot latest = table.snapshotManager().latestSnapshot();
            boolean blobs = command.path("blobs").asBoolean(true);
            DataEvolutionCompactCoordinator planner =
                    new DataEvolutionCompactCoordinator(table, blobs, true, latest);
            for (DataEvolutionCompactTask task : planner.plan()) {
                messages.add(task.doCompact(table, user));
            }
        } else if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite(user);
            write.withIOManager(disk());
            if (table.coreOptions().rowTrackingEnabled()) {
                // As Flink and Spark compact: rows keep their ids.
                write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
            }
            for (AppendCompactTask task : appendTasks(table)) {
                messages.add(task.doCompact(table, write));
            }
            write.close();
        } else {
            try (TableWriteImpl<?> write = table.newWrite(user)) {
                write.withIOManager(disk());
                for (Map.Entry<BinaryRow, Set<Integer>> entry : buckets(table).entrySet()) {
                    for (int bucket : entry.getValue()) {
                        write.compact(entry.getKey(), bucket, full);
                    }
                }
                messages.addAll(write.prepareCommit(true, BATCH));
            }
        }
        commit(table, user, messages, command);
    }

    /** None for a table without snapshot, where the coordinator's scan ends at once, as it does for a source of Flink. */
    private static List<AppendCompactTask> appendTasks(FileStoreTable table) {
        try {
            return new AppendCompactCoordinator(table, false).run();
        } catch (EndOfScanException e) {
            return Collections.emptyList();
        }
    }

    private static Map<BinaryRow, Set<Integer>> buckets(FileStoreTable table) {
        Map<BinaryRow, Set<Integer>> buckets = new LinkedHashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            buckets.computeIfAbsent(entry.partition(), any -> new TreeSet<>()).add(entry.bucket());
        }
        return buckets;
    }

    private void deletePositions(JsonNode command) throws Exception {
        FileStoreTable table = open(command);
        IndexFileHandler handler = table.store().newIndexFileHandler();
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        boolean wide = table.coreOptions().deletionVectorBitmap64();
        Map<BinaryRow, AppendDeleteFileMaintainer> maintainers = new LinkedHashMap<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            JsonNode positions = command.get("positions").get(entry.fileName());
            if (positions != null) {
                DeletionVector vector = wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                positions.forEach(one -> vector.delete(one.longValue()));
                maintainers
                        .computeIfAbsent(entry.partition(), partition ->
                                BaseAppendDeleteFileMaintainer.forUnawareAppend(handler, snapshot, partition))
                        .notifyNewDeletionVector(entry.fileName(), vector);
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (Map.Entry<BinaryRow, AppendDeleteFileMaintainer> entry : maintainers.entrySet()) {
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> removed = new ArrayList<>();
            for (IndexManifestEntry one : entry.getValue().persist()) {
                (one.kind() == FileKind.ADD ? added : removed).add(one.indexFile());
            }
            DataIncrement increment = new DataIncrement(
                    Collections.emptyList(), Collections.emptyList(), Collections.emptyList(), added, removed);
            messages.add(new CommitMessageImpl(
                    entry.getKey(), 0, null, increment, CompactIncrement.emptyIncrement()));
        }
        commit(table, UUID.randomUUID().toString(), messages, command);
    }

    // ── reading ──────────────────────────────────────────────────────────────────────────────────

    private Table asked(JsonNode command) {
        Map<String, String> at = new HashMap<>();
        if (command.has("snapshot")) {
            at.put("scan.snapshot-id", command.get("snapshot").asText());
        }
        if (command.has("tag")) {
            at.put("scan.tag-name", command.get("tag").asText());
        }
        if (command.has("incremental")) {
            at.put("incremental-between", command.get("incremental").asText());
        }
        FileStoreTable table = open(command);
        table = at.isEmpty() ? table : table.copy(at);
        return command.has("system") ? SystemTableLoader.load(command.get("system").asText(), table) : table;
    }

    private static List<Object> columns(RowType type) {
        List<Object> columns = new ArrayList<>();
        for (DataField field : type.getFields()) {
            columns.add(Map.of("name", field.name(), "type", field.type().asSQLString()));
        }
        return columns;
    }

    private static Predicate predicate(JsonNode filter, RowType type) {
        String op = filter.get(0).asText();
        PredicateBuilder builder = new PredicateBuilder(type);
        if (op.equals("and") || op.equals("or")) {
            List<Predicate> parts = new ArrayList<>();
            for (int i = 1; i < filter.size(); i++) {
                parts.add(predicate(filter.get(i), type));
            }
            return op.equals("and") ? PredicateBuilder.and(parts) : PredicateBuilder.or(parts);
        }
        int at = builder.indexOf(filter.get(1).asText());
        Object value = filter.has(2) ? PaimonValues.value(filter.get(2), type.getTypeAt(at)) : null;
        switch (op) {
            case "=":
                return builder.equal(at, value);
            case "!=":
                return builder.notEqual(at, value);
            case "<":
                return builder.lessThan(at, value);
            case ">=":
                return builder.greaterOrEqual(at, value);
            case "isnull":
                return builder.isNull(at);
            default:
                throw new IllegalArgumentException(filter.toString());
        }
    }

    private void read(JsonNode command, Map<String, Object> answer) throws Exception {
        Table table = asked(command);
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        if (command.has("filter")) {
            builder = builder.withFilter(predicate(command.get("filter"), type));
        }
        if (command.has("projection")) {
            type = type.project(PaimonValues.list(command.get("projection")));
            builder = builder.withReadType(type);
        }
        TableRead read = builder.newRead().withIOManager(disk());
        read = command.has("filter") ? read.executeFilter() : read;
        List<Object> rows = new ArrayList<>();
        for (Split split : builder.newScan().plan().splits()) {
            rows(read, split, type, command.path("kinds").asBoolean(), rows);
        }
        answer.put("columns", columns(type));
        answer.put("rows", rows);
    }

    private static void rows(TableRead read, Split split, RowType type, boolean kinds, List<Object> rows)
            throws Exception {
        try (RecordReaderIterator<InternalRow> found = new RecordReaderIterator<>(read.createReader(split))) {
            while (found.hasNext()) {
                InternalRow row = found.next();
                List<Object> values = PaimonValues.plain(row, type);
                if (kinds) {
                    values.add(0, row.getRowKind().shortString());
                }
                rows.add(values);
            }
        }
    }

    /** What a streaming reader sees, snapshot by snapshot. */
    private void changelog(JsonNode command, Map<String, Object> answer) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(io, new Path(command.get("table").asText()));
        Map<Long, List<Object>> bySnapshot = new TreeMap<>();
        answer.put("columns", columns(table.rowType()));
        Snapshot latest = table.snapshotManager().latestSnapshot();
        if (latest != null) {
            Map<String, String> options = PaimonValues.texts(command.get("options"));
            options.put("scan.mode", "from-snapshot");
            options.put("scan.snapshot-id", "1");
            FileStoreTable streamed = table.copyWithoutTimeTravel(options);
            ReadBuilder builder = streamed.newReadBuilder();
            StreamTableScan scan = builder.newStreamScan();
            TableRead read = builder.newRead().withIOManager(disk());
            for (Long next = null; next == null || next <= latest.id(); ) {
                TableScan.Plan plan = scan.plan();
                Long after = scan.checkpoint();
                for (Split split : plan.splits()) {
                    long id = ((DataSplit) split).snapshotId();
                    rows(read, split, streamed.rowType(), true,
                            bySnapshot.computeIfAbsent(id, any -> new ArrayList<>()));
                }
                if (plan.splits().isEmpty() && next != null && next.equals(after)) {
                    break;
                }
                next = after;
            }
        }
        List<Object> changes = new ArrayList<>();
        bySnapshot.forEach((id, rows) -> changes.add(Map.of("snapshot", id, "rows", rows)));
        answer.put("changes", changes);
    }

    // ── metadata ─────────────────────────────────────────────────────────────────────────────────

    private List<Object> files(JsonNode command) {
        FileStoreTable table = open(command);
        List<Object> files = new ArrayList<>();
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            DataFileMeta file = entry.file();
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("partition", PaimonValues.plain(entry.partition(), table.schema().logicalPartitionType()));
            told.put("bucket", entry.bucket());
            told.put("file", file.fileName());
            told.put("level", file.level());
            told.put("rows", file.rowCount());
            file.deleteRowCount().ifPresent(count -> told.put("delete_rows", count));
            told.put("first_row_id", file.firstRowId());
            told.put("columns", file.writeCols());
            told.put("external", file.externalPath().orElse(null));
            files.add(told);
        }
        return files;
    }

    private List<Object> index(JsonNode command) {
        FileStoreTable table = open(command);
        Snapshot snapshot = command.has("snapshot")
                ? table.snapshot(command.get("snapshot").asLong())
                : table.snapshotManager().latestSnapshot();
        List<Object> entries = new ArrayList<>();
        if (snapshot == null || snapshot.indexManifest() == null) {
            return entries;
        }
        IndexFileHandler handler = table.store().newIndexFileHandler();
        for (IndexManifestEntry entry : handler.readManifest(snapshot.indexManifest())) {
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("type", entry.indexFile().indexType());
            told.put("file", entry.indexFile().fileName());
            if (entry.indexFile().dvRanges() != null) {
                Map<String, Object> vectors = new LinkedHashMap<>();
                handler.readAllDeletionVectors(entry).forEach(
                        (name, vector) -> vectors.put(name, Map.of("cardinality", vector.getCardinality())));
                told.put("vectors", vectors);
            }
            entries.add(told);
        }
        return entries;
    }

    /** What is wrong with the metadata, held against itself and the files, over all snapshots and tags. */
    private List<Object> check(JsonNode command) throws Exception {
        FileStoreTable table = open(command);
        List<Object> problems = new ArrayList<>();
        Map<String, Snapshot> versions = new LinkedHashMap<>();
        table.snapshotManager().snapshots().forEachRemaining(one -> versions.put("snapshot " + one.id(), one));
        for (String tag : table.tagManager().allTagNames()) {
            versions.put("tag " + tag, table.tagManager().getOrThrow(tag).trimToSnapshot());
        }
        for (Map.Entry<String, Snapshot> version : versions.entrySet()) {
            List<String> found = new ArrayList<>();
            try {
                checkManifests(table, version.getValue(), version.getKey().startsWith("tag "), found);
                checkFiles(table, version.getValue(), found);
            } catch (Exception error) {
                found.add(message(error));
            }
            found.forEach(one -> problems.add(version.getKey() + ": " + one));
        }
        return problems;
    }

    private void checkManifests(FileStoreTable table, Snapshot snapshot, boolean isTag, List<String> problems)
            throws Exception {
        ManifestList lists = table.store().manifestListFactory().create();
        ManifestFile manifest = table.store().manifestFileFactory().create();
        String[] names = {snapshot.baseManifestList(), snapshot.deltaManifestList(), snapshot.changelogManifestList()};
        for (int i = 0; i < names.length; i++) {
            if (names[i] == null || i == 2 && isTag) {
                continue;
            }
            long rows = 0;
            for (ManifestFileMeta one : lists.read(names[i])) {
                Path path = new Path(table.location(), "manifest/" + one.fileName());
                if (!io.exists(path) || io.getFileSize(path) != one.fileSize()) {
                    problems.add("size of manifest " + one.fileName());
                }
                long added = 0;
                long deleted = 0;
                for (ManifestEntry entry : manifest.read(one.fileName())) {
                    boolean isAdded = entry.kind() == FileKind.ADD;
                    added += isAdded ? 1 : 0;
                    deleted += isAdded ? 0 : 1;
                    rows += isAdded ? entry.file().rowCount() : -entry.file().rowCount();
                }
                if (added != one.numAddedFiles() || deleted != one.numDeletedFiles()) {
                    problems.add("counts of manifest " + one.fileName());
                }
            }
            if (i == 1 && snapshot.deltaRecordCount() != rows) {
                problems.add("deltaRecordCount is not " + rows);
            }
            if (i == 2 && snapshot.changelogRecordCount() != null && snapshot.changelogRecordCount() != rows) {
                problems.add("changelogRecordCount is not " + rows);
            }
        }
    }

    private void checkFiles(FileStoreTable table, Snapshot snapshot, List<String> problems) throws Exception {
        long total = 0;
        Set<String> live = new HashSet<>();
        Map<String, List<ManifestEntry>> runs = new HashMap<>();
        for (ManifestEntry entry : table.store().newScan().withSnapshot(snapshot).plan().files()) {
            DataFileMeta file = entry.file();
            total += file.rowCount();
            live.add(file.fileName());
            Path folder = table.store().pathFactory().bucketPath(entry.partition(), entry.bucket());
            Path path = file.externalPath().map(Path::new).orElse(new Path(folder, file.fileName()));
            if (!io.exists(path) || io.getFileSize(path) != file.fileSize()) {
                problems.add("size of file " + path);
            }
            for (String extra : file.extraFiles()) {
                if (!io.exists(new Path(path.getParent(), extra))) {
                    problems.add("no extra file " + extra);
                }
            }
            boolean storesIds = file.writeCols() != null && file.writeCols().contains(SpecialFields.ROW_ID.name());
            if (table.coreOptions().rowTrackingEnabled() && file.firstRowId() == null && !storesIds) {
                problems.add("no row ids in " + path);
            }
            // Such files have the ends of other columns where others have their smallest and largest key.
            boolean hasKeys = !"true".equals(table.options().get("pk-clustering-override"));
            if (file.level() > 0 && hasKeys && !table.primaryKeys().isEmpty()) {
                runs.computeIfAbsent(folder + "/" + file.level(), any -> new ArrayList<>()).add(entry);
            }
        }
        if (snapshot.totalRecordCount() != total) {
            problems.add("totalRecordCount is not " + total);
        }
        for (Map.Entry<String, List<ManifestEntry>> run : runs.entrySet()) {
            checkRun(((KeyValueFileStore) table.store()).newKeyComparator(), run.getKey(), run.getValue(), problems);
        }
        checkIndexes(table, snapshot, live, problems);
    }

    private static void checkRun(
            Comparator<InternalRow> order, String name, List<ManifestEntry> run, List<String> problems) {
        run.sort((one, other) -> order.compare(one.minKey(), other.minKey()));
        for (int i = 1; i < run.size(); i++) {
            if (order.compare(run.get(i - 1).maxKey(), run.get(i).minKey()) >= 0) {
                problems.add("keys overlap in level " + name);
            }
        }
    }

    private void checkIndexes(FileStoreTable table, Snapshot snapshot, Set<String> live, List<String> problems)
            throws Exception {
        if (snapshot.indexManifest() == null) {
            return;
        }
        IndexFileHandler handler = table.store().newIndexFileHandler();
        for (IndexManifestEntry entry : handler.readManifest(snapshot.indexManifest())) {
            Path path = handler.filePath(entry);
            if (!io.exists(path) || io.getFileSize(path) != entry.indexFile().fileSize()) {
                problems.add("size of index file " + path);
            }
            if (entry.indexFile().dvRanges() != null) {
                for (String name : handler.readAllDeletionVectors(entry).keySet()) {
                    if (!live.contains(name)) {
                        problems.add("deletion vector of a file that is not live: " + name);
                    }
                }
            }
        }
    }
}
