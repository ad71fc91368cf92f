import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.Base64;

/** Carries out the commands of standard input with JDBC; see ../README.md. */
public final class Check {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            connection.setAutoCommit(false);
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "insert" -> insert(connection, words);
                    case "order" -> Outbox.placeOrder(connection, words[1], Integer.parseInt(words[2]));
                    case "commit" -> connection.commit();
                    case "rollback" -> connection.rollback();
                    default -> throw new IllegalArgumentException("there is no command " + words[0]);
                }
            }
        }
    }

    /** The second word is the order, the values follow. */
    private static void insert(Connection connection, String[] words) throws SQLException {
        try (PreparedStatement row = connection.prepareStatement("INSERT INTO orders (id, total) VALUES (?, 0)")) {
            row.setString(1, words[1]);
            row.executeUpdate();
        }
        Outbox.send(connection, new Outbox.Event(text(words[2]), text(words[3]), text(words[4]), text(words[5]),
            text(words[6]), text(words[7]), bytes(words[8]), text(words[9]), text(words[10]),
            words[11].equals("-") ? null : Integer.valueOf(text(words[11])), time(words[12]), time(words[13])));
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word.substring(1));
    }

    private static String text(String word) {
        return word.equals("-") ? null : new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static OffsetDateTime time(String word) {
        return word.equals("-") ? null : OffsetDateTime.parse(text(word));
    }
}
