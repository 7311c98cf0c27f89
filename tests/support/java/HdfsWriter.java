// Java Paimon on HDFS: `java -cp … HdfsWriter TABLE BEGIN COUNT` commits COUNT rows, each by itself, from key BEGIN on,
// once its standard input has a line; it writes "ready" before.

import java.util.List;
import java.util.UUID;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;

public class HdfsWriter {
    public static void main(String[] args) throws Exception {
        Path path = new Path(args[0]);
        FileIO io = FileIO.get(path, CatalogContext.create(new Options()));
        FileStoreTable table = FileStoreTableFactory.create(io, path);
        System.out.println("ready");
        System.in.read();
        long begin = Long.parseLong(args[1]);
        for (long key = begin; key < begin + Long.parseLong(args[2]); key++) {
            String user = UUID.randomUUID().toString();
            List<CommitMessage> messages;
            try (TableWriteImpl<?> write = table.newWrite(user)) {
                write.write(GenericRow.of(key, BinaryString.fromString("java")));
                messages = write.prepareCommit(true, BatchWriteBuilder.COMMIT_IDENTIFIER);
            }
            try (TableCommitImpl commit = table.newCommit(user)) {
                commit.commit(BatchWriteBuilder.COMMIT_IDENTIFIER, messages);
            }
        }
        System.exit(0);
    }
}
